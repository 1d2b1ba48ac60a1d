#!/usr/bin/env bash
# The image: whole without the machine it was made on, small, not root, the same
# bytes each time. Unpacked and run by its own loader: no container runtime here.
. tests/process_lib.sh
make() {
  k8s/image/make_image.py --coteried server/coteried --coterie client/coterie "$@"
}
expect "makes the image" make --archive "$work/a.tar" \
  --contents "$work/contents.tsv" --tree "$work/tree"
expect "makes it again" make --archive "$work/b.tar"
expect "the same bytes" cmp "$work/a.tar" "$work/b.tar"
expect "under 100 MB" [ "$(stat -c %s "$work/a.tar")" -lt 100000000 ]

mkdir "$work/archive" "$work/root"
tar -xf "$work/a.tar" -C "$work/archive"
expect_code 0 "is a docker-archive that runs as nobody of this world" \
  python3 - "$work/archive" "$work/root" <<'PY'
import hashlib, json, pathlib, sys, tarfile
archive, root = map(pathlib.Path, sys.argv[1:])
[manifest] = json.loads((archive / "manifest.json").read_text())
config = json.loads((archive / manifest["Config"]).read_text())
assert config["config"]["User"] == "65532:65532", config
for name, digest in zip(manifest["Layers"], config["rootfs"]["diff_ids"]):
    data = (archive / name).read_bytes()
    assert "sha256:" + hashlib.sha256(data).hexdigest() == digest, name
    with tarfile.open(archive / name) as layer:
        for member in layer:
            assert member.isdir() or member.isreg(), member.name
            assert not member.mode & 0o6022, (member.name, oct(member.mode))
            assert member.isdir() or member.uid == 0, member.name
        layer.extractall(root)
print(manifest["RepoTags"][0])
PY
expect_text out '^coterie:[0-9]+\.[0-9]+\.[0-9]+$' "tagged with the version"
expect "the folder holds the same" diff -r "$work/root" "$work/tree"

# What the Containerfile makes of that folder is the same image: its last stage
# copies it whole and says the same of it.
expect_code 0 "the Containerfile says the same" \
  python3 - "$work/archive" k8s/image/Containerfile <<'PY'
import json, pathlib, re, shlex, sys
archive = pathlib.Path(sys.argv[1])
[manifest] = json.loads((archive / "manifest.json").read_text())
config = json.loads((archive / manifest["Config"]).read_text())["config"]
text = pathlib.Path(sys.argv[2]).read_text().replace("\\\n", " ")
stage = re.split(r"^FROM ", text, flags=re.M)[-1].splitlines()
assert stage[0] == "scratch", stage[0]
copied, says = [], {"Env": [], "ExposedPorts": {}, "Volumes": {}}
for line in (l for l in stage[1:] if l and not l.startswith("#")):
    word, _, rest = line.partition(" ")
    if word == "COPY":
        copied.append(rest.split())
    elif word in ("ENTRYPOINT", "CMD"):
        says[word.capitalize()] = json.loads(rest)
    elif word == "ENV":
        says["Env"] += shlex.split(rest)
    elif word == "EXPOSE":
        says["ExposedPorts"].update({p + "/tcp": {} for p in rest.split()})
    elif word == "VOLUME":
        says["Volumes"].update({v: {} for v in rest.split()})
    elif word == "HEALTHCHECK":
        flags, _, test = rest.partition(" CMD ")
        says["Healthcheck"] = {"Test": ["CMD"] + json.loads(test), **{
            name.capitalize(): int(seconds) * 10**9
            for name, seconds in re.findall(r"--(\w+)=(\d+)s", flags)}}
    else:
        says[{"USER": "User", "WORKDIR": "WorkingDir"}[word]] = rest
data = config["WorkingDir"]
assert copied == [["--from=build", "/image/", "/"],
                  ["--from=build", "--chown=" + config["User"], "/data",
                   data]], copied
for key, said in says.items():
    assert config[key] == said, (key, config[key], said)
assert config.keys() - says.keys() == {"Labels", "StopSignal"}, config.keys()
PY

# Programs and libraries, and no other executables.
run() {
  "$work/root/lib64/ld-linux-x86-64.so.2" --inhibit-cache \
    --library-path "$work/root/usr/lib/x86_64-linux-gnu" "$@"
}
for program in coteried coterie; do
  expect_code 0 "$program starts" run "$work/root/usr/bin/$program" --version
  expect_code 0 "$program names its libraries" \
    run --list "$work/root/usr/bin/$program"
  expect "and finds each inside the image" \
    [ "$(grep '=>' "$work/out" | grep -vc "=> $work/root/")" -eq 0 ]
done
expect "two programs" [ "$(ls "$work/root/usr/bin")" = $'coterie\ncoteried' ]

# The list of contents, inside and outside, names each file and its package.
expect "listed inside" cmp "$work/contents.tsv" \
  "$work/root/usr/share/coterie/contents.tsv"
expect "every file is listed" [ "$(find "$work/root" -type f |
  wc -l)" -eq "$(wc -l <"$work/contents.tsv")" ]
expect "every library with its package" [ "$(awk -F'\t' \
  '$1 ~ /\.so/ && $4 == "-"' "$work/contents.tsv" | wc -l)" -eq 0 ]
report
