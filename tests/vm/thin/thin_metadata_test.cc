// The reader of src/thin on metadata that a kernel wrote, while the pool is in use. Usage:
//   thin_metadata_test DATA METADATA    two blank disks, which are overwritten
// A model holds what each 4 KiB of each thin device should have. Metadata is judged by it, by thin_dump and
// by thin_delta.
#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <iostream>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/direct_io.h"
#include "base/subprocess.h"
#include "tests/unit/thin/thin_tools.h"
#include "thin/exclusive.h"

namespace quarry::thin {
namespace {

using ::testing::IsEmpty;

constexpr uint64_t kPage = 4096, kChunk = 65536, kPages = kChunk / kPage;
std::string data_disk, metadata_disk;

// Failures end the test: gtest catches the exception.
void Must(bool done, const std::string& what) {
  if (!done) {
    throw std::runtime_error(what);
  }
}

// Waits for udevd, which makes the nodes.
void Dmsetup(std::vector<std::string> argv) {
  argv.insert(argv.begin(), "/sbin/dmsetup");
  const auto done = SpawnSubprocess().Run({.argv = argv, .env = {{"PATH", "/sbin:/bin"}}},
                                          CallWithin(std::chrono::minutes(1)));
  Must(done.has_value() && done->ok(),
       fmt::format("{}: {}", fmt::join(argv, " "), done ? done->err : done.error().message()));
}

// A descriptor past the page cache, for one step: an open device cannot be removed.
UniqueFd Open(const std::string& path) {
  UniqueFd fd(open(path.c_str(), O_RDWR | O_DIRECT | O_CLOEXEC));
  Must(fd.valid(), path + ": " + strerror(errno));
  return fd;
}

uint64_t SizeOf(const std::string& path) {
  uint64_t size = 0;
  Must(ioctl(Open(path).get(), BLKGETSIZE64, &size) == 0, path);
  return size;
}

std::string Node(DeviceId id) {
  return fmt::format("/dev/mapper/t{}", id);
}

// A pool of raw device-mapper with its thin devices, all active. Pages of a device have the tag of their last
// write, 0 for zeroes.
class Pool {
 public:
  using Tags = std::vector<uint64_t>;

  Pool(uint64_t chunks, bool zero) : chunks_(chunks), buffer_(MakeDirectBuffer(kLargest)) {
    std::memset(buffer_.get(), 0, kLargest);
    EXPECT_EQ(WriteWhole(Open(metadata_disk).get(), {buffer_.get(), kPage}, 0).value_or(0), kPage);
    Dmsetup({"create", "tp", "--table",
             fmt::format("0 {} thin-pool {} {} {} 0 {}", SizeOf(data_disk) / kChunk * (kChunk / 512),
                         metadata_disk, data_disk, kChunk / 512, zero ? "0" : "1 skip_block_zeroing")});
  }
  // Throws what the destructor would have to hide.
  void Stop() {
    while (!tags_.empty()) {
      Deactivate(tags_.begin()->first);
    }
    if (std::exchange(active_, false)) {
      Dmsetup({"remove", "--retry", "tp"});
    }
  }
  ~Pool() {
    try {
      Stop();
    } catch (const std::runtime_error& error) {
      ADD_FAILURE() << error.what();
    }
  }
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  const std::map<DeviceId, Tags>& tags() const { return tags_; }
  uint64_t chunks() const { return chunks_; }
  void Message(const std::string& message) { Dmsetup({"message", "tp", "0", message}); }

  void Create(DeviceId id) {
    Message(fmt::format("create_thin {}", id));
    Activate(id);
    tags_[id] = Tags(chunks_ * kPages);
  }
  void Snapshot(DeviceId origin, DeviceId id) {
    Dmsetup({"suspend", fmt::format("t{}", origin)});
    Message(fmt::format("create_snap {} {}", id, origin));
    Dmsetup({"resume", fmt::format("t{}", origin)});
    Activate(id);
    tags_[id] = tags_.at(origin);
  }
  void Delete(DeviceId id) {
    Deactivate(id);
    Message(fmt::format("delete {}", id));
  }
  void Write(DeviceId id, uint64_t page, uint64_t count) {
    const UniqueFd fd = Open(Node(id));
    Write(fd.get(), id, page, count);
  }
  void Write(int fd, DeviceId id, uint64_t page, uint64_t count) {
    ++tag_;
    std::fill_n(reinterpret_cast<uint64_t*>(buffer_.get()), count * kPage / 8, tag_);
    Must(WriteWhole(fd, {buffer_.get(), count * kPage}, page * kPage).value_or(0) == count * kPage,
         "a write failed");
    std::fill_n(tags_.at(id).begin() + static_cast<std::ptrdiff_t>(page), count, tag_);
  }
  // The first page of each chunk, in the order and at the rate of the page cache.
  void Fill(DeviceId id, uint64_t chunk, uint64_t count) {
    const UniqueFd fd(open(Node(id).c_str(), O_RDWR | O_CLOEXEC));
    Must(fd.valid(), Node(id));
    for (uint64_t i = chunk; i < chunk + count; ++i) {
      Write(fd.get(), id, i * kPages, 1);
    }
    Must(fsync(fd.get()) == 0, "a flush failed");
  }
  void Discard(DeviceId id, uint64_t chunk, uint64_t count) {
    const std::array<uint64_t, 2> range{chunk * kChunk, count * kChunk};
    Must(ioctl(Open(Node(id)).get(), BLKDISCARD, range.data()) == 0, strerror(errno));
    std::fill_n(tags_.at(id).begin() + static_cast<std::ptrdiff_t>(chunk * kPages), count * kPages, 0);
  }
  // The model and the device, page by page. Returns how many pages differ.
  size_t WrongPages(DeviceId id) {
    const UniqueFd fd = Open(Node(id));
    size_t wrong = 0;
    for (uint64_t page = 0; page < chunks_ * kPages; page += kLargest / kPage) {
      const uint64_t count = std::min(kLargest / kPage, chunks_ * kPages - page);
      EXPECT_EQ(ReadWhole(fd.get(), {buffer_.get(), count * kPage}, page * kPage).value_or(0), count * kPage);
      for (uint64_t i = 0; i < count; ++i) {
        wrong += HasTag({buffer_.get() + i * kPage, kPage}, tags_.at(id)[page + i]) ? 0 : 1;
      }
    }
    return wrong;
  }
  static bool HasTag(std::span<const std::byte> page, uint64_t tag) {
    const auto* words = reinterpret_cast<const uint64_t*>(page.data());
    return std::all_of(words, words + page.size() / 8, [&](uint64_t word) { return word == tag; });
  }
  // What is erased below the pool reads as zeroes.
  void Forget(DeviceId id, uint64_t chunk) {
    std::fill_n(tags_.at(id).begin() + static_cast<std::ptrdiff_t>(chunk * kPages), kPages, 0);
  }

 private:
  static constexpr uint64_t kLargest = 1 << 20;

  void Activate(DeviceId id) {
    Dmsetup({"create", fmt::format("t{}", id), "--table",
             fmt::format("0 {} thin /dev/mapper/tp {}", chunks_ * (kChunk / 512), id)});
  }
  void Deactivate(DeviceId id) {
    tags_.erase(id);
    Dmsetup({"remove", "--retry", fmt::format("t{}", id)});
  }

  uint64_t chunks_;
  uint64_t tag_ = 0;
  bool active_ = true;
  DirectBuffer buffer_;
  std::map<DeviceId, Tags> tags_;
};

MetadataReader MustOpen(Root root) {
  auto file = MetadataFile::Open(metadata_disk);
  EXPECT_TRUE(file.has_value()) << file.error().message();
  auto reader = MetadataReader::Open(std::make_shared<MetadataFile>(std::move(*file)), root, Call{});
  EXPECT_TRUE(reader.has_value()) << reader.error().message();
  return std::move(*reader);
}

class History {
 public:
  History(Pool& pool, uint32_t seed) : pool_(pool), random_(seed) {}

  uint64_t Below(uint64_t n) { return std::uniform_int_distribution<uint64_t>(0, n - 1)(random_); }
  DeviceId Any(DeviceId except = 0) {
    DeviceId id = except;
    while (id == except) {
      id = std::next(pool_.tags().begin(), static_cast<std::ptrdiff_t>(Below(pool_.tags().size())))->first;
    }
    return id;
  }
  // One random step. `spared` is left alone.
  void Step(DeviceId spared = 0) {
    const uint64_t action = Below(12), devices = pool_.tags().size(), chunks = pool_.chunks();
    if (devices < 3) {
      pool_.Create(next_++);
    } else if (action < 2 && devices < 8) {
      pool_.Snapshot(Any(spared), next_++);
    } else if (action == 2 && devices > 3) {
      pool_.Delete(Any(spared));
    } else if (action == 3) {
      const uint64_t chunk = Below(chunks);
      pool_.Discard(Any(spared), chunk, 1 + Below(std::min<uint64_t>(chunks - chunk, 40)));
    } else {
      const uint64_t page = Below(chunks * kPages);
      pool_.Write(Any(spared), page, 1 + Below(std::min<uint64_t>(chunks * kPages - page, 128)));
    }
  }

 private:
  Pool& pool_;
  std::mt19937 random_;
  DeviceId next_ = 1;
};

// Every mapping leads to the bytes of its device on the data disk.
size_t CheckMappings(MetadataReader& reader, const Pool& pool) {
  const UniqueFd data = Open(data_disk);
  const DirectBuffer chunk = MakeDirectBuffer(kChunk);
  size_t mapped = 0;
  for (const auto& [id, tags] : pool.tags()) {
    std::set<uint64_t> seen;
    const auto visit = [&](const MappingRun& run) {
      for (uint64_t i = 0; i < run.length; ++i) {
        seen.insert(run.thin_begin + i);
        EXPECT_EQ(ReadWhole(data.get(), {chunk.get(), kChunk}, (run.data_begin + i) * kChunk).value_or(0),
                  kChunk);
        for (uint64_t page = 0; page < kPages; ++page) {
          EXPECT_TRUE(
              Pool::HasTag({chunk.get() + page * kPage, kPage}, tags[(run.thin_begin + i) * kPages + page]))
              << "device " << id << ", chunk " << run.thin_begin + i << ", page " << page;
        }
      }
      return true;
    };
    const Status walked = reader.Walk(id, 0, visit, Call{});
    EXPECT_TRUE(walked.has_value()) << walked.error().message();
    for (uint64_t page = 0; page < tags.size(); ++page) {
      EXPECT_TRUE(tags[page] == 0 || seen.contains(page / kPages)) << "device " << id << ", page " << page;
    }
    mapped += seen.size();
  }
  return mapped;
}

// Whatever differs in bytes is in a run.
size_t CheckDifferences(MetadataReader& reader, const Pool& pool) {
  size_t changed = 0;
  for (const auto& [base, base_tags] : pool.tags()) {
    for (const auto& [target, target_tags] : pool.tags()) {
      std::set<uint64_t> chunks;
      const auto visit = [&](const ChangedRun& run) {
        for (uint64_t i = 0; i < run.length; ++i) {
          chunks.insert(run.thin_begin + i);
        }
        return true;
      };
      const auto walked = WalkDifference(reader, base, target, 0, visit, Call{});
      EXPECT_TRUE(walked.has_value()) << walked.error().message();
      for (uint64_t page = 0; page < base_tags.size(); ++page) {
        EXPECT_TRUE(base_tags[page] == target_tags[page] || chunks.contains(page / kPages))
            << base << " " << target;
      }
      changed += chunks.size();
    }
  }
  return changed;
}

// Zeroes the blocks on the data disk, below the pool.
void Erase(const BlockSet& blocks) {
  const UniqueFd data = Open(data_disk);
  const DirectBuffer zeroes = MakeDirectBuffer(kChunk);
  std::memset(zeroes.get(), 0, kChunk);
  for (auto run = blocks.NextRun(0); run; run = blocks.NextRun(run->begin + run->length)) {
    for (uint64_t i = 0; i < run->length; ++i) {
      Must(WriteWhole(data.get(), {zeroes.get(), kChunk}, (run->begin + i) * kChunk).value_or(0) == kChunk,
           "a write failed");
    }
  }
  Must(fsync(data.get()) == 0, "a flush failed");
}

class ThinMetadata : public ::testing::TestWithParam<uint32_t> {};

TEST_P(ThinMetadata, ErasingExclusiveBlocksLeavesEveryOtherByte) {
  std::string compared;
  size_t mapped = 0, changed = 0, erased = 0;
  {
    Pool pool(256, true);
    History history(pool, GetParam());
    for (int i = 0; i < 60; ++i) {
      history.Step();
    }
    const DeviceId doomed = history.Any();
    pool.Message("reserve_metadata_snap");
    MetadataReader reader = MustOpen(Root::kHeld);
    mapped = CheckMappings(reader, pool);
    changed = CheckDifferences(reader, pool);
    // The others go on while the snapshot is read.
    for (int i = 0; i < 25; ++i) {
      history.Step(doomed);
    }
    EXPECT_THAT(testing::Disagreements(metadata_disk, Root::kHeld, 6, &compared), IsEmpty());
    const auto exclusive = FindExclusive(reader, std::array{doomed}, Call{});
    ASSERT_TRUE(exclusive.has_value()) << exclusive.error().message();
    erased = exclusive->size();
    Erase(*exclusive);
    const auto forget = [&](const MappingRun& run) {
      for (uint64_t i = 0; i < run.length; ++i) {
        if (exclusive->Contains(run.data_begin + i)) {
          pool.Forget(doomed, run.thin_begin + i);
        }
      }
      return true;
    };
    ASSERT_TRUE(reader.Walk(doomed, 0, forget, Call{}).has_value());
    pool.Message("release_metadata_snap");
    for (const auto& [id, tags] : pool.tags()) {
      EXPECT_EQ(pool.WrongPages(id), 0u) << "device " << id << (id == doomed ? ", doomed" : "");
    }
    pool.Delete(doomed);
    for (const auto& [id, tags] : pool.tags()) {
      EXPECT_EQ(pool.WrongPages(id), 0u) << "device " << id << " after the doomed one was deleted";
    }
  }
  // The pool is stopped: its live metadata can be read.
  EXPECT_THAT(testing::Disagreements(metadata_disk, Root::kLive, 3), IsEmpty());
  EXPECT_TRUE(testing::RunThinTool({"thin_check", metadata_disk}).has_value());
  EXPECT_GT(mapped, 0u);
  EXPECT_GT(changed, 0u);
  std::cout << compared << "; erased " << erased << " chunks; " << mapped << " mappings have their bytes\n";
}

INSTANTIATE_TEST_SUITE_P(Seeds, ThinMetadata, ::testing::Range(1u, 5u));

// Trees of three levels, of which whole leaves are discarded. Comparing bytes would take too long.
TEST(ThinMetadataTest, HighTreesAreReadAsTheToolsReadThem) {
  std::string compared;
  {
    Pool pool(65536, false);
    std::mt19937 random(3);
    const auto scatter = [&](DeviceId id, int writes) {
      const UniqueFd fd = Open(Node(id));
      for (int i = 0; i < writes; ++i) {
        pool.Write(fd.get(), id, random() % 65536 * kPages, 1);
      }
    };
    pool.Create(1);
    pool.Fill(1, 10000, 40000);
    pool.Snapshot(1, 2);
    scatter(1, 50);
    pool.Snapshot(1, 3);
    for (const uint64_t chunk : {9000, 20000, 45000}) {
      pool.Discard(1, chunk, 3000);
    }
    scatter(1, 200);
    pool.Snapshot(2, 4);
    scatter(4, 200);
    pool.Message("reserve_metadata_snap");
    scatter(1, 50);
    pool.Discard(4, 30000, 9000);
    EXPECT_THAT(testing::Disagreements(metadata_disk, Root::kHeld, 12, &compared), IsEmpty());
    pool.Message("release_metadata_snap");
  }
  EXPECT_THAT(testing::Disagreements(metadata_disk, Root::kLive, 6), IsEmpty());
  std::cout << compared << "\n";
}

}  // namespace
}  // namespace quarry::thin

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  if (argc != 3) {
    std::cerr << "usage: thin_metadata_test DATA METADATA\n";
    return 2;
  }
  quarry::thin::data_disk = argv[1];
  quarry::thin::metadata_disk = argv[2];
  return RUN_ALL_TESTS();
}
