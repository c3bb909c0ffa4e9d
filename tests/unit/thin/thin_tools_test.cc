// The reader beside Debian's thin-provisioning-tools, on images that these made and on those of
// metadata_image.h. Images that a kernel made: vm.thin_metadata.
#include "tests/unit/thin/thin_tools.h"

#include <fcntl.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <random>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/thin/histories.h"
#include "tests/unit/thin/metadata_image.h"

namespace quarry::thin::testing {
namespace {

using ::testing::IsEmpty;

class ThinToolsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string folder = ::testing::TempDir() + "thin_tools_XXXXXX";
    ASSERT_NE(mkdtemp(folder.data()), nullptr);
    folder_ = folder;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  // The kernel's tools want a file of the final size.
  std::string Restored(const std::string& xml) {
    const std::string input = folder_ + "/pool.xml", output = folder_ + "/pool.bin";
    std::ofstream(input) << xml;
    std::ofstream(output).close();
    std::filesystem::resize_file(output, uint64_t{64} << 20);
    const auto restored = RunThinTool({"thin_restore", "-i", input, "-o", output});
    EXPECT_TRUE(restored.has_value()) << restored.error().message();
    return output;
  }

  std::string Written(const MetadataImage& image, bool held) {
    const std::string output = folder_ + "/image.bin";
    std::ofstream file(output, std::ios::binary);
    for (const BlockBytes& block : image.Blocks(held)) {
      file.write(reinterpret_cast<const char*>(block.data()), kBlockSize);
    }
    return output;
  }

  std::string folder_;
};

// Single mappings; runs of them are for thin_restore to find.
std::string Xml(const MetadataImage& image) {
  std::string xml =
      R"(<superblock uuid="" time="9" transaction="12" data_block_size="256" nr_data_blocks="2000000">)";
  for (const Device& device : image.devices()) {
    const auto& mappings = image.model().at(device.id);
    xml += "\n<device dev_id=\"" + std::to_string(device.id) + "\" mapped_blocks=\"" +
           std::to_string(mappings.size()) + "\" transaction=\"" + std::to_string(device.transaction_id) +
           "\" creation_time=\"" + std::to_string(device.creation_time) + "\" snap_time=\"" +
           std::to_string(device.snapshotted_time) + "\">";
    for (const auto& [thin, data] : mappings) {
      xml += "\n<single_mapping origin_block=\"" + std::to_string(thin) + "\" data_block=\"" +
             std::to_string(data) + "\" time=\"0\"/>";
    }
    xml += "\n</device>";
  }
  return xml + "\n</superblock>\n";
}

TEST_F(ThinToolsTest, RestoredPoolsAreReadAsTheToolsReadThem) {
  for (uint32_t seed = 1; seed <= 4; ++seed) {
    const MetadataImage image = RandomPool(seed, 40, 1000);
    std::string compared;
    EXPECT_THAT(Disagreements(Restored(Xml(image)), Root::kLive, 6, &compared), IsEmpty()) << "seed " << seed;
    std::cout << "seed " << seed << ": " << compared << "\n";
  }
}

TEST_F(ThinToolsTest, ALargeRestoredPoolIsReadAsTheToolsReadIt) {
  MetadataImage image;
  std::mt19937 random(7);
  image.Create(3);
  for (uint64_t i = 0; i < 100'000; ++i) {
    image.Map(3, random() % 1'000'000);
  }
  image.Snapshot(3, kMaxDeviceId);
  for (uint64_t i = 0; i < 3'000; ++i) {
    image.Map(3, random() % 1'000'000);
    image.Unmap(3, random() % 1'000'000);
  }
  std::string compared;
  EXPECT_THAT(Disagreements(Restored(Xml(image)), Root::kLive, 2, &compared), IsEmpty());
  std::cout << compared << "\n";
}

// Shared subtrees, which thin_restore does not make, read through a metadata snapshot.
TEST_F(ThinToolsTest, PoolsWithSharedSubtreesAreReadAsTheToolsReadThem) {
  for (uint32_t seed = 101; seed <= 104; ++seed) {
    const MetadataImage image = RandomPool(seed, 40, 1000, false);
    std::string compared;
    EXPECT_THAT(Disagreements(Written(image, true), Root::kHeld, 6, &compared), IsEmpty()) << "seed " << seed;
    std::cout << "seed " << seed << ": " << compared << "\n";
  }
}

}  // namespace
}  // namespace quarry::thin::testing
