// Every way to use a volume, as the kernel sees it: each file system and the raw device, every access mode,
// read-only and not, by one pod and by two. Writes are tried, and mount flags are read from the kernel.
#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>

#include "base/unique_fd.h"
#include "tests/vm/fixture.h"

namespace quarry::vm {
namespace {

using grpc::StatusCode;
using Mode = v1::VolumeCapability::AccessMode;

constexpr Mode::Mode kSingleNode[] = {Mode::SINGLE_NODE_WRITER, Mode::SINGLE_NODE_READER_ONLY,
                                      Mode::SINGLE_NODE_SINGLE_WRITER, Mode::SINGLE_NODE_MULTI_WRITER};
constexpr Mode::Mode kMultiNode[] = {Mode::MULTI_NODE_READER_ONLY, Mode::MULTI_NODE_SINGLE_WRITER,
                                     Mode::MULTI_NODE_MULTI_WRITER};

struct Use {
  std::string type;     // of the volume
  std::string content;  // file system, or "block"
};

v1::VolumeCapability As(const Use& use, Mode::Mode mode) {
  return use.content == "block" ? BlockCapability(mode) : MountCapability(use.content, mode);
}

// The kernel's options of the mount at exactly this path. Empty if there is none, or more than one.
std::vector<std::string> OptionsAt(const std::string& path) {
  const std::vector<std::string> lines =
      Lines(Tool({"findmnt", "-rn", "-o", "VFS-OPTIONS", "--mountpoint", path}).out);
  if (lines.size() != 1) {
    return {};
  }
  std::string words = lines.front();
  std::replace(words.begin(), words.end(), ',', ' ');
  return Words(words);
}

bool Has(const std::vector<std::string>& words, const std::string& word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

class Matrix : public VmTest, public testing::WithParamInterface<Use> {
 protected:
  bool StartsQuarryd() const override { return false; }

  bool IsBlock() const { return GetParam().content == "block"; }

  // The published path accepts a write, or refuses it if it is read-only.
  void ExpectWritable(const std::string& target, bool writable) {
    if (IsBlock()) {
      const UniqueFd reading(::open(target.c_str(), O_RDONLY | O_CLOEXEC));
      int read_only = -1;
      ASSERT_EQ(::ioctl(reading.get(), BLKROGET, &read_only), 0);
      EXPECT_EQ(read_only, writable ? 0 : 1);
    } else {
      const std::vector<std::string> options = OptionsAt(target);
      EXPECT_TRUE(Has(options, writable ? "rw" : "ro")) << testing::PrintToString(options);
      EXPECT_TRUE(Has(options, "nosuid") && Has(options, "nodev")) << testing::PrintToString(options);
    }
    const std::string file = IsBlock() ? target : target + "/file";
    if (writable) {
      EXPECT_OK(WritePattern(file, ++seed_, 4096));
      EXPECT_OK(CheckPattern(file, seed_, 4096));
    } else {
      const auto written = WritePattern(file, seed_ + 1, 4096);
      EXPECT_FALSE(written.has_value()) << "a read-only target accepted a write";
      if (seed_ > 0) {
        EXPECT_OK(CheckPattern(file, seed_, 4096));
      }
    }
  }

  void UseBy(const v1::Volume& volume, Mode::Mode mode, bool read_only, bool several) {
    const v1::VolumeCapability how = As(GetParam(), mode);
    const bool writable = !read_only && mode != Mode::SINGLE_NODE_READER_ONLY;
    const std::string staging = StagingPath("matrix");
    const std::string first = TargetPath("first");
    const std::string second = TargetPath("second");
    ASSERT_OK(client().Publish(volume, staging, first, how, read_only));
    ASSERT_OK(client().Publish(volume, staging, first, how, read_only)) << "repeated";
    ExpectWritable(first, writable);
    if (several && mode == Mode::SINGLE_NODE_SINGLE_WRITER) {
      EXPECT_TRUE(Fails(client().Publish(volume, staging, second, how, read_only),
                        StatusCode::FAILED_PRECONDITION, first));
    } else if (several) {
      ASSERT_OK(client().Publish(volume, staging, second, how, read_only));
      ExpectWritable(second, writable);
      ExpectWritable(first, writable);
    }
    EXPECT_OK(client().Unpublish(volume.volume_id(), first));
    EXPECT_NE(::access(first.c_str(), F_OK), 0) << "the target is still there";
    if (several && mode != Mode::SINGLE_NODE_SINGLE_WRITER) {
      ExpectWritable(second, writable);
    }
    EXPECT_OK(client().Unpublish(volume.volume_id(), second)) << "also if it was never published";
    EXPECT_NE(::access(second.c_str(), F_OK), 0);
  }

  uint64_t seed_ = 0;
};

TEST_P(Matrix, EveryAccessModeIsEnforcedForOnePodAndForTwo) {
  QuarrydOptions options;
  options.arguments = {"--alpha"};  // offers SINGLE_NODE_MULTI_WRITER and _SINGLE_WRITER
  StartQuarryd(options);
  const v1::VolumeCapability any = As(GetParam(), Mode::SINGLE_NODE_WRITER);
  const v1::Volume volume = MustCreate({"matrix", TypeParameters(GetParam().type), any, 320 * kMi});
  ASSERT_FALSE(volume.volume_id().empty());
  const std::string staging = StagingPath("matrix");
  for (const Mode::Mode mode : kSingleNode) {
    ASSERT_OK(client().Stage(volume, staging, As(GetParam(), mode)));
    for (const bool read_only : {false, true}) {
      for (const bool several : {false, true}) {
        SCOPED_TRACE(Mode::Mode_Name(mode) + (read_only ? ", read-only" : "") +
                     (several ? ", two pods" : ""));
        UseBy(volume, mode, read_only, several);
        ASSERT_FALSE(HasFailure());
      }
    }
    ASSERT_OK(client().Unstage(volume.volume_id(), staging));
  }
  for (const Mode::Mode mode : kMultiNode) {
    SCOPED_TRACE(Mode::Mode_Name(mode));
    EXPECT_TRUE(Fails(client().Create({"wide", {}, As(GetParam(), mode)}), StatusCode::INVALID_ARGUMENT,
                      "access_mode"));
    EXPECT_FALSE(client().Stage(volume, staging, As(GetParam(), mode)).ok());
    ASSERT_OK(client().Stage(volume, staging, any));
    EXPECT_FALSE(client().Publish(volume, staging, TargetPath("wide"), As(GetParam(), mode)).ok());
    EXPECT_NE(::access(TargetPath("wide").c_str(), F_OK), 0);
    ASSERT_OK(client().Unstage(volume.volume_id(), staging));
  }
  EXPECT_OK(client().Delete(volume.volume_id()));
}

void PrintTo(const Use& use, std::ostream* out) {
  *out << use.content << " on " << use.type;
}

INSTANTIATE_TEST_SUITE_P(Of, Matrix,
                         testing::Values(Use{"linear", "ext4"}, Use{"linear", "xfs"}, Use{"linear", "btrfs"},
                                         Use{"linear", "block"}, Use{"raid1", "ext4"}, Use{"raid1", "xfs"},
                                         Use{"raid1", "btrfs"}, Use{"raid1", "block"}),
                         [](const auto& info) { return info.param.type + "_" + info.param.content; });

}  // namespace
}  // namespace quarry::vm
