// The pieces of what FAISS makes of a factory string (index/faiss_factory.h).
// Pure; any thread. Null: there is no such piece.

#ifndef COTERIE_INDEX_FAISS_INNER_H_
#define COTERIE_INDEX_FAISS_INNER_H_

#include <faiss/Index.h>
#include <faiss/IndexHNSW.h>
#include <faiss/IndexIVF.h>
#include <faiss/IndexPreTransform.h>
#include <faiss/VectorTransform.h>

namespace coterie::internal_faiss {

inline faiss::LinearTransform* TurnOf(const faiss::Index& index) {
  const auto* const turned =
      dynamic_cast<const faiss::IndexPreTransform*>(&index);
  return turned == nullptr
             ? nullptr
             : dynamic_cast<faiss::LinearTransform*>(turned->chain.at(0));
}

// What the turn, if there is one, is in front of.
inline faiss::Index* InnerOf(faiss::Index& index) {
  auto* const turned = dynamic_cast<faiss::IndexPreTransform*>(&index);
  return turned == nullptr ? &index : turned->index;
}
inline const faiss::Index* InnerOf(const faiss::Index& index) {
  const auto* const turned =
      dynamic_cast<const faiss::IndexPreTransform*>(&index);
  return turned == nullptr ? &index : turned->index;
}

inline faiss::IndexIVF* ListsOf(faiss::Index& index) {
  return dynamic_cast<faiss::IndexIVF*>(InnerOf(index));
}
inline const faiss::IndexIVF* ListsOf(const faiss::Index& index) {
  return dynamic_cast<const faiss::IndexIVF*>(InnerOf(index));
}

inline faiss::IndexHNSW* GraphOf(faiss::Index& index) {
  return dynamic_cast<faiss::IndexHNSW*>(InnerOf(index));
}
inline const faiss::IndexHNSW* GraphOf(const faiss::Index& index) {
  return dynamic_cast<const faiss::IndexHNSW*>(InnerOf(index));
}

}  // namespace coterie::internal_faiss

#endif  // COTERIE_INDEX_FAISS_INNER_H_
