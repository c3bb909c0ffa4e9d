// A thin store on real LVM, and quarryd that serves it. Needs four disks.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/direct_io.h"
#include "base/unique_fd.h"
#include "tests/vm/disks_under_load.h"
#include "tests/vm/thin_store_tools.h"

namespace quarry::vm {

inline constexpr char kMetrics[] = "/run/quarry-test/metrics.sock";
inline constexpr char kMarker[] = "a tenant of the thin store was here";

class ThinStoresTest : public DisksUnderLoad {
 protected:
  // The store grows by itself up to `most` bytes; 0: it does not grow.
  explicit ThinStoresTest(int64_t size = 96 * kMi, int64_t most = 0)
      : kStoreSize(size), kMostSize(std::max(size, most)) {}

  void StartWith(const std::string& type, const std::string& delay = "600",
                 std::vector<std::pair<std::string, std::string>> variables = {}) {
    QuarrydOptions options;
    options.variables = std::move(variables);
    options.pools = {"main=vg,store.fast=" + std::to_string(kStoreSize / kMi) + "MiB type=" + type +
                     " chunk=64KiB max=" + std::to_string(kMostSize / kMi) + "MiB"};
    options.arguments = {"--repair-delay=" + delay, std::string("--metrics-address=unix://") + kMetrics};
    StartQuarryd(options);
    ASSERT_FALSE(Pool().empty()) << quarryd().Log();
  }
  void TearDown() override {
    for (const std::string& number : pulled_) {
      Tool({"vmctl", "return", number});
    }
    pulled_.clear();
    RemoveStore();
    DisksUnderLoad::TearDown();
  }

  static std::string Lvs(const std::string& fields, const std::string& what = kGroup) {
    return Tool({"lvs", "-a", "--noheadings", "--separator", " ", "-o", fields, what}).out;
  }
  static std::string Pool() { return StorePool(); }
  int64_t Left() {
    const auto capacity = client().Capacity(TypeParameters("thin"));
    EXPECT_OK(capacity);
    return capacity.value.available_capacity();
  }
  v1::Volume Make(const std::string& name, int64_t size) {
    return MustCreate({name, TypeParameters("thin"), BlockCapability(), size});
  }
  std::string Publish(const v1::Volume& volume, const std::string& name) {
    EXPECT_OK(client().Stage(volume, StagingPath(name), BlockCapability()));
    EXPECT_OK(client().Publish(volume, StagingPath(name), TargetPath(name), BlockCapability()));
    return TargetPath(name);
  }
  void End(const v1::Volume& volume, const std::string& name) {
    EXPECT_OK(client().Unpublish(volume.volume_id(), TargetPath(name)));
    EXPECT_OK(client().Unstage(volume.volume_id(), StagingPath(name)));
    EXPECT_OK(client().Delete(volume.volume_id()));
  }
  testing::AssertionResult IsEmptyStore() {
    if (Eventually([&] { return Left() == kMostSize; }, 120)) {
      return testing::AssertionSuccess();
    }
    return testing::AssertionFailure() << Left() << " left\n" << Lvs("lv_name,lv_tags") << quarryd().Log();
  }
  // How often these words are on the disks, all of them raw and from the first byte to the last. Words that
  // lie on the border of two MiB are not counted.
  static int CountOnDisks(const std::string& words) {
    constexpr size_t kPiece = 1 << 20;
    Sh("sync");
    const DirectBuffer buffer = MakeDirectBuffer(kPiece);
    const auto* const bytes = reinterpret_cast<const char*>(buffer.get());
    int found = 0;
    for (const std::string& disk : DiskNodes()) {
      const UniqueFd fd(open(disk.c_str(), O_RDONLY | O_DIRECT | O_CLOEXEC));
      EXPECT_TRUE(fd.valid()) << disk;
      ssize_t got = 0;
      for (off_t at = 0; (got = pread(fd.get(), buffer.get(), kPiece, at)) > 0; at += got) {
        const std::string_view piece(bytes, static_cast<size_t>(got));
        if (memcmp(bytes, bytes + 1, piece.size() - 1) == 0) {
          continue;  // the same byte everywhere
        }
        for (size_t i = piece.find(words); i != std::string_view::npos; i = piece.find(words, i + 1)) {
          ++found;
        }
      }
      EXPECT_EQ(got, 0) << disk;
    }
    return found;
  }
  static int Markers() { return CountOnDisks(kMarker); }
  // Numbers of the disks that have legs of the store's data and metadata.
  std::set<int> DisksOf(const std::string& pool) {
    std::set<int> out;
    for (int number = 1; number <= 4; ++number) {
      const std::string node = DiskNode(number);
      if (!node.empty() && Sh("lvs -a --noheadings -o lv_name,devices vg | grep '" + pool +
                              "_t.*_rimage' | grep -c '" + node + "('")
                                   .out.substr(0, 1) != "0") {
        out.insert(number);
      }
    }
    return out;
  }

  const int64_t kStoreSize;
  const int64_t kMostSize;
};

}  // namespace quarry::vm
