// nanoflann behind C functions, for bench/approx/approx.py: one query after the
// other, for d = 2, 3 and 8. An object belongs to one caller at a time.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <nanoflann.hpp>

namespace {

struct Points {
  const float* data;
  int64_t n;
  int64_t d;

  // What nanoflann asks for.
  size_t kdtree_get_point_count() const { return static_cast<size_t>(n); }
  float kdtree_get_pt(size_t i, size_t j) const {
    return data[static_cast<int64_t>(i) * d + static_cast<int64_t>(j)];
  }
  template <typename Box>
  bool kdtree_get_bbox(Box&) const {
    return false;
  }
};

class Index {
 public:
  virtual ~Index() = default;
  virtual void Search(const float* query, int64_t k, uint32_t* ids) const = 0;
};

template <int kDimension>
class Tree : public Index {
 public:
  explicit Tree(const Points& points)
      : points_(points), tree_(kDimension, points_, {kLeaf}) {}

  void Search(const float* query, int64_t k, uint32_t* ids) const override {
    float distances[256];
    tree_.knnSearch(query, static_cast<size_t>(k), ids, distances);
  }

 private:
  static constexpr size_t kLeaf = 10;  // its default

  const Points points_;
  const nanoflann::KDTreeSingleIndexAdaptor<
      nanoflann::L2_Simple_Adaptor<float, Points>, Points, kDimension>
      tree_;
};

}  // namespace

extern "C" {

// `rows` must outlive the index. Null for another dimension.
void* nanoflann_open(int64_t n, int64_t d, const float* rows) {
  const Points points = {rows, n, d};
  switch (d) {
    case 2:
      return static_cast<Index*>(new Tree<2>(points));
    case 3:
      return static_cast<Index*>(new Tree<3>(points));
    case 8:
      return static_cast<Index*>(new Tree<8>(points));
    default:
      return nullptr;
  }
}

void nanoflann_close(void* index) { delete static_cast<Index*>(index); }

// k at most 256; ids: m x k.
void nanoflann_search(const void* index, int64_t m, int64_t d,
                      const float* queries, int64_t k, uint32_t* ids) {
  for (int64_t q = 0; q < m; ++q) {
    static_cast<const Index*>(index)->Search(queries + q * d, k, ids + q * k);
  }
}

}  // extern "C"
