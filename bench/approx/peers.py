"""What a user would pick instead, one thread each: hnswlib, faiss, scann, annoy.

A peer is built once and kept in bench/out/peers, with the seconds of CPU that
this took, so that a run can be repeated or continued without building.
"""

import os
import time

import numpy as np

KEPT = "bench/out/peers"


def _kept(name, build, load, save):
    """An index, and the seconds of CPU that it took to build."""
    os.makedirs(KEPT, exist_ok=True)
    path = os.path.abspath(f"{KEPT}/{name}")
    # Written last: an index that has it is whole.
    note = f"{path}.seconds"
    if os.path.exists(note):
        with open(note, encoding="ascii") as file:
            return load(path), float(file.read())
    start = time.process_time()
    index = build()
    seconds = time.process_time() - start
    save(index, path)
    with open(note, "w", encoding="ascii") as file:
        file.write(f"{seconds:.1f}\n")
    return index, seconds


def _unit(rows):
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


class Hnswlib:
    name = "hnswlib 0.8.0 M=16 ef_construction=200"
    efforts = (10, 20, 30, 40, 60, 80, 120, 160, 240, 320, 480, 640, 960, 1280)

    def __init__(self, case, metric, rows):
        import hnswlib
        space = {"l2": "l2", "cosine": "cosine"}[metric]

        def build():
            index = hnswlib.Index(space=space, dim=rows.shape[1])
            index.init_index(len(rows), M=16, ef_construction=200)
            index.add_items(rows, num_threads=1)
            return index

        def load(path):
            index = hnswlib.Index(space=space, dim=rows.shape[1])
            index.load_index(path, max_elements=len(rows))
            return index

        self.index, self.build_seconds = _kept(
            f"{case}.hnswlib", build, load, lambda i, path: i.save_index(path))
        self.index.set_num_threads(1)

    def search(self, queries, k, effort):
        self.index.set_ef(max(effort, k))
        return self.index.knn_query(queries, k=k, num_threads=1)[0]


class Faiss:
    """PyPI's faiss, which has AVX-512 where ours has Debian's scalar code."""

    def __init__(self, case, metric, rows, factory, efforts):
        import faiss
        faiss.omp_set_num_threads(1)
        self.name = f"faiss-cpu {faiss.__version__} {factory}"
        self.efforts = efforts
        self.cosine = metric == "cosine"
        self.lists = factory.startswith("IVF")

        def build():
            index = faiss.index_factory(rows.shape[1], factory)
            data = _unit(rows) if self.cosine else rows
            index.train(data)
            index.add(data)
            return index

        self.index, self.build_seconds = _kept(
            f"{case}.{factory}.faiss", build, faiss.read_index,
            faiss.write_index)

    def search(self, queries, k, effort):
        if self.lists:
            self.index.nprobe = effort
        else:
            self.index.hnsw.efSearch = effort
        if self.cosine:
            queries = _unit(queries)
        return self.index.search(queries, k)[1]


class Scann:
    """Tree, anisotropic codes of 4 bits, re-scored: its documentation's own."""

    efforts = (5, 10, 20, 30, 50, 80, 120, 200, 300)

    def __init__(self, case, metric, rows):
        import scann
        from importlib import metadata
        self.name = f"scann {metadata.version('scann')}"
        self.cosine = metric == "cosine"
        measure = "dot_product" if self.cosine else "squared_l2"
        threshold = 0.2 if self.cosine else float("nan")

        def build():
            data = _unit(rows) if self.cosine else rows
            return scann.scann_ops_pybind.builder(
                data, 10, measure).set_n_training_threads(1).tree(
                    num_leaves=int(len(rows) ** 0.5), num_leaves_to_search=100,
                    training_sample_size=100_000).score_ah(
                        2, anisotropic_quantization_threshold=threshold
                        ).reorder(200).build()

        def save(index, path):
            os.makedirs(path, exist_ok=True)
            index.serialize(path)

        self.index, self.build_seconds = _kept(
            f"{case}.scann", build, scann.scann_ops_pybind.load_searcher, save)

    def search(self, queries, k, effort):
        if self.cosine:
            queries = _unit(queries)
        return self.index.search_batched(
            queries, final_num_neighbors=k, leaves_to_search=effort,
            pre_reorder_num_neighbors=max(100, 2 * effort))[0]


class Annoy:
    efforts = (1000, 3000, 10_000, 30_000, 100_000)

    def __init__(self, case, metric, rows):
        import annoy
        self.name = "annoy 1.17.3, 50 trees"
        space = "euclidean" if metric == "l2" else "angular"

        def build():
            index = annoy.AnnoyIndex(rows.shape[1], space)
            index.set_seed(1)
            for i, row in enumerate(rows):
                index.add_item(i, row)
            index.build(50, n_jobs=1)
            return index

        def load(path):
            index = annoy.AnnoyIndex(rows.shape[1], space)
            index.load(path)
            return index

        self.index, self.build_seconds = _kept(
            f"{case}.annoy", build, load, lambda i, path: i.save(path))

    def search(self, queries, k, effort):
        found = np.zeros((len(queries), k), dtype=np.int64)
        for i, query in enumerate(queries):
            ids = self.index.get_nns_by_vector(query, k, search_k=effort)
            found[i, :len(ids)] = ids
        return found


def all_of(case, metric, rows, wanted):
    """Those that can be imported and whose name `wanted` matches."""
    makers = {
        "hnswlib": lambda: Hnswlib(case, metric, rows),
        "faiss-hnsw": lambda: Faiss(
            case, metric, rows, "HNSW32",
            (16, 32, 64, 96, 128, 192, 256, 384, 512, 768, 1024)),
        "faiss-ivf": lambda: Faiss(
            case, metric, rows, "IVF1024,Flat",
            (1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128, 192, 256)),
        "scann": lambda: Scann(case, metric, rows),
        "annoy": lambda: Annoy(case, metric, rows),
    }
    peers = []
    for name, make in makers.items():
        if not wanted.search(name):
            continue
        try:
            peers.append(make())
        except ImportError as error:
            print(f"{name} is not here: {error}")
    return peers
