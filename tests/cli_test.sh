#!/usr/bin/env bash
# The command line against a real server: tasks, errors, exit codes.
. tests/process_lib.sh
coterie=client/coterie

expect_code 4 "no server" env COTERIE_SERVER=127.0.0.1:1 \
  $coterie count words --timeout 2s
expect_text err 'coteried' "says how to start one"

start_server
expect_code 2 "unknown collection" $coterie count words
expect_text err 'create' "says what to do"
expect "create" $coterie create words --dim 100 --metric cosine
expect_code 3 "create twice" $coterie create words --dim 100 --metric cosine
expect_code 1 "bad metric" $coterie create w2 --dim 100 --metric manhattan
expect_code 3 "odd name" $coterie create 'a/b' --dim 100 --metric l2
expect "import" $coterie import words data/words-10k.npy \
  --text data/words-10k.txt --as word
expect_code 0 "count" $coterie count words
expect_text out '10,?000' "counts all"

expect_code 0 "search by word" $coterie search words --near king -k 5
expect_text out 'king' "finds itself"
expect_text out 'queen|prince' "finds its kin"
expect_code 0 "search with evidence" $coterie search words --near king --profile
expect_text out '[Ee]xact' "speaks of exactness"
expect_code 0 "search as JSON" $coterie search words --id 0 -k 3 --json
expect_text out '"exact": *true' "certified"
expect_code 2 "unknown word" $coterie search words --near xyzzyplugh
expect_code 1 "k of zero or a refusal" $coterie search words
expect_code 3 "k over the limit" $coterie search words --id 0 -k 10001
expect_text err '10,?000' "names the limit"
expect_code 3 "wrong dimension" $coterie search words --vector=1,2,3
expect_code 2 "query by an id that is not stored" \
  $coterie search words --id 18446744073709551615
expect_code 0 "get" $coterie get words 0 1
expect_code 0 "delete" $coterie delete words 0
expect_code 0 "count" $coterie count words
expect_text out '9,?999' "one fewer"

# Files that are not what they say.
head -c 1000 data/words-10k.npy >"$work/short.npy"
expect_code 3 "truncated npy" $coterie import words "$work/short.npy"
expect_text err 'short.npy' "names the file"
/usr/bin/python3 - "$work/liar.npy" <<'PY'
import sys
header = b"{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000000, 100), }"
header += b" " * (118 - len(header) - 1) + b"\n"
with open(sys.argv[1], "wb") as f:
    f.write(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + bytes(4000))
PY
expect_code 3 "a header that lies" $coterie import words "$work/liar.npy"
expect_text err '1000000000000' "names the rows it claims"
head -n 9999 data/words-10k.txt >"$work/few.txt"
expect_code 3 "fewer words than rows" $coterie import words \
  data/words-10k.npy --text "$work/few.txt"
expect_text err '9,999' "names both numbers"
expect_code 0 "nothing of these was stored" $coterie count words
expect_text out '9,?999' "count unchanged"

# Out and in again: the same points give the same files.
expect "export" $coterie export words "$work/out.npy"
expect "import of an export" $coterie import copy "$work/out.npy" \
  --ids "$work/out.npy.ids.npy" \
  --attributes "$work/out.npy.attributes.jsonl" --create --metric cosine
expect "export of the copy" $coterie export copy "$work/again.npy"
for part in npy npy.ids.npy npy.attributes.jsonl; do
  expect "the same $part" cmp "$work/out.$part" "$work/again.$part"
done
expect_code 3 "export over a file" $coterie export words "$work/out.npy"

# Small batches, so that there is a middle to be killed in: an import in the
# background has come to a tenth when this returns.
{ printf '\240\017\0\0\144\0\0\0'  # 4,000 rows of dimension 100
  tail -c +129 data/words-10k.npy | head -c $((4000 * 400)); } >"$work/some.fbin"
slowly=("$work/some.fbin" --batch 4 --in-flight 2 --checkpoint "$work/cp")
begin_import() {
  : >"$work/import.err"
  $coterie import "$1" "${slowly[@]}" --create --metric l2 \
    >"$work/import.out" 2>"$work/import.err" &
  pids[import]=$!
  await_line import.err ' 10%'
}

begin_import waits
stop_server KILL
start_server --listen="$address"
wait "${pids[import]}"
expect_code 0 "an import outlives its server" test $? -eq 0
unset "pids[import]"
expect_code 0 "count" $coterie count waits
expect_text out '^4000$' "nothing is missing"

begin_import resumed
end import KILL 137
expect_code 0 "resume" $coterie import resumed "${slowly[@]}" --resume
expect_text err 'resuming behind [1-9]' "goes on where it was"
expect_code 0 "count" $coterie count resumed
expect_text out '^4000$' "nothing is missing"
for name in waits resumed; do
  expect "export" $coterie export $name "$work/$name.npy" --no-attributes
done
expect "the same vectors" cmp "$work/waits.npy" "$work/resumed.npy"
expect "the same ids" cmp "$work/waits.npy.ids.npy" "$work/resumed.npy.ids.npy"

expect_code 0 "describe" $coterie describe
expect_text out 'words' "lists the collection"
expect_code 0 "describe one" $coterie describe words
expect_code 0 "kmeans" $coterie kmeans words -k 20 --show word \
  --label cluster --plot "$work/plot.png" --measure
expect_text err 'iteration 1 ' "shows progress"
expect_text out '20 clusters of 9,?999 rows' "says what it did"
expect_text out 'stored as kmeans-20' "and its name"
expect_text out '9,?999 points labelled' "labels points"
expect "a picture" grep -q PNG "$work/plot.png"
expect_code 0 "a labelled point" $coterie get words 1
expect_text out 'cluster' "has its cluster"
expect_code 0 "assign" $coterie assign words kmeans-20 --id 1 --id 0 --top 2
expect_text out 'none' "says which points there are not"
expect_code 2 "assign to nothing" $coterie assign words nothing --id 1
expect_code 0 "jobs" $coterie jobs
expect_text out 'words +kmeans-20 +DONE' "lists them"
expect_code 0 "several k" $coterie kmeans words -k 2,4,8 --name sweep
expect_text out 'elbow at k' "finds the elbow"
expect_code 3 "a name that is taken" $coterie kmeans words -k 2 --name sweep-2
expect_text err '--replace' "says what to do"
expect_code 3 "more clusters than points" $coterie kmeans words -k 10001
expect_code 1 "an algorithm that is none" \
  $coterie kmeans words -k 2 --algorithm magic
expect_code 0 "clusterings" $coterie clusterings words
expect_text out 'sweep-2' "lists them"
expect_code 0 "a clustering" \
  $coterie clusterings words kmeans-20 --show word --clusters 3
expect_text out '20 clusters of 9,?999 rows' "shows it"
expect_code 0 "its centroids" $coterie clusterings words sweep-2 --json
expect_text out 'centroid' "are there as JSON"
expect_code 0 "delete" $coterie clusterings words sweep-8 --delete
expect_code 2 "gone" $coterie clusterings words sweep-8
expect_code 0 "delete" $coterie jobs words sweep-4 --delete
expect_code 2 "gone" $coterie jobs words sweep-4

expect_code 0 "train" $coterie train words --label cluster --model softmax \
  --classes 20 --method isega --workers 4 --updates 40 --held-out 0.2 \
  --plot "$work/loss.png"
expect_text err 'update [0-9]+ +loss [0-9]' "shows the loss"
expect_text out '2,000 parameters' "says what was learnt"
expect_text out 'measured: loss .* accuracy 0\.[0-9]' "and how well"
expect_text out '[0-9.]+% saved' "and what was not sent"
expect_text out 'stored as softmax-isega' "and its name"
expect "a picture" grep -q PNG "$work/loss.png"
expect_code 0 "predict" $coterie predict words softmax-isega --id 1 --id 0
expect_text out 'none' "says which points there are not"
expect_code 3 "a label that is none" $coterie train words --label word
expect_text err '9,?999|rows' "how many points lack it"
expect_code 3 "what is not sound" $coterie train words --label cluster \
  --model softmax --classes 20 --compressor top-k --feedback plain
expect_text err 'method' "names it"
expect_code 0 "models" $coterie models words
expect_text out 'softmax-isega' "lists them"
expect_code 0 "jobs" $coterie jobs
expect_text out 'words +softmax-isega +DONE' "lists its job"
expect_code 0 "delete" $coterie models words softmax-isega --delete
expect_code 2 "gone" $coterie predict words softmax-isega --id 1

expect_code 1 "drop needs --yes without a terminal" $coterie drop words
expect_code 0 "drop" $coterie drop words --yes
expect_code 2 "gone" $coterie count words
expect_code 0 "help" $coterie --help
expect_text out 'import' "help lists commands"
expect_code 0 "help of a command" $coterie search --help
expect_text out '[Ee]xample' "help teaches by example"
stop_server TERM
report
