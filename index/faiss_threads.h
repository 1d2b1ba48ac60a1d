// The threads that come with FAISS. Any thread.

#ifndef COTERIE_INDEX_FAISS_THREADS_H_
#define COTERIE_INDEX_FAISS_THREADS_H_

namespace coterie {

// Ends, for good, the threads that OpenBLAS starts when a program that has
// FAISS is loaded: one for each core but one, with no signal blocked. FAISS
// then works on the threads that call it (index/faiss_index.h does the same at
// first use). For the first line of a program that handles signals. Idempotent.
void EndBlasThreads();

}  // namespace coterie

#endif  // COTERIE_INDEX_FAISS_THREADS_H_
