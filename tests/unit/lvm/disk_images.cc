#include "tests/unit/lvm/disk_images.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include <fstream>
#include <iterator>
#include <span>

#include <gtest/gtest.h>

#include "base/unique_fd.h"
#include "lvm/fresh/metadata_header.h"

namespace quarry::lvm {

namespace fs = std::filesystem;

DiskImages::DiskImages() {
  std::string name = QUARRY_SCRATCH "/images-XXXXXX";
  fs::create_directories(QUARRY_SCRATCH);
  EXPECT_NE(mkdtemp(name.data()), nullptr);
  folder_ = name;
}

DiskImages::~DiskImages() {
  std::error_code ignored;
  fs::remove_all(folder_, ignored);
}

std::string DiskImages::Fixture(const std::string& state, const std::string& file) {
  std::ifstream in(fs::path(QUARRY_FIXTURES) / "lvm/headers/2.03.16" / state / file, std::ios::binary);
  EXPECT_TRUE(in.is_open()) << state << "/" << file;
  return {std::istreambuf_iterator<char>(in), {}};
}

void DiskImages::Put(const fs::path& file, const std::string& state, int disk) const {
  const std::string front = Fixture(state, std::to_string(disk) + ".front");
  Write(file, front);
  const auto bytes = std::as_bytes(std::span(front));
  const auto label = ParseLabel(bytes);
  ASSERT_TRUE(label.has_value());
  if (label->metadata_areas.empty() || label->metadata_areas[0].offset + kMetadataHeaderSize > front.size()) {
    return;
  }
  const DiskArea area = label->metadata_areas[0];
  const auto header = ParseMetadataHeader(bytes.subspan(area.offset), area);
  ASSERT_TRUE(header.has_value());
  if (!header->committed.has_value()) {
    return;
  }
  std::string text = Fixture(state, std::to_string(disk) + ".text");
  for (const DiskArea& piece : TextPieces(area, *header->committed)) {
    Write(file, text.substr(0, piece.size), piece.offset);
    text.erase(0, piece.size);
  }
}

void DiskImages::Write(const fs::path& file, const std::string& bytes, uint64_t at) {
  const UniqueFd fd(open(file.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  ASSERT_TRUE(fd.valid()) << file;
  ASSERT_EQ(pwrite(fd.get(), bytes.data(), bytes.size(), static_cast<off_t>(at)),
            static_cast<ssize_t>(bytes.size()));
  // A direct read waits for data that is not written back yet.
  ASSERT_EQ(fsync(fd.get()), 0);
}

}  // namespace quarry::lvm
