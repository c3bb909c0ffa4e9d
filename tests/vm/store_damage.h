// Damages the metadata of the thin store of a test, on the disks themselves.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "base/direct_io.h"
#include "base/unique_fd.h"
#include "tests/vm/thin_store_tools.h"

namespace quarry::vm {

inline constexpr size_t kMetadataBlock = 4096;

struct MetadataLeg {
  std::string disk;
  int64_t offset;  // in bytes
};

// Where the metadata of the store begin on its disks. Legs of so small metadata have one piece.
inline std::vector<MetadataLeg> MetadataLegs() {
  const std::string wanted = "[" + StorePool() + "_tmeta_rimage_";
  const auto bytes = [](const std::string& text) { return text.empty() ? 0 : std::stoll(text); };
  const int64_t extent = bytes(Trim(Sh("vgs --noheadings --nosuffix --units b -o vg_extent_size vg").out));
  std::vector<MetadataLeg> out;
  for (const std::string& row :
       Lines(Tool({"lvs", "-a", "--noheadings", "--separator", " ", "-o", "lv_name,devices", kGroup}).out)) {
    const size_t blank = row.find(' ');
    const size_t open = row.rfind('(');
    if (!row.starts_with(wanted) || blank == std::string::npos || open == std::string::npos) {
      continue;
    }
    const std::string disk = row.substr(blank + 1, open - blank - 1);
    const int64_t start = bytes(Trim(Sh("pvs --noheadings --nosuffix --units b -o pe_start " + disk).out));
    out.push_back({disk, start + std::stoll(row.substr(open + 1)) * extent});
  }
  return out;
}

// Overwrites the root of the index of the data's space map on every leg (struct thin_disk_superblock of
// drivers/md/dm-thin-metadata.c, struct disk_sm_root of persistent-data). No mapping is lost by that. The
// store is not active.
inline void DamageMetadata() {
  constexpr size_t kMagicAt = 32;
  constexpr size_t kIndexRootAt = 80;
  constexpr uint64_t kMagic = 27022010;
  const std::vector<MetadataLeg> legs = MetadataLegs();
  ASSERT_EQ(legs.size(), 2U) << Tool({"lvs", "-a", "-o", "lv_name,devices", kGroup}).out;
  const DirectBuffer buffer = MakeDirectBuffer(kMetadataBlock);
  for (const MetadataLeg& leg : legs) {
    const UniqueFd fd(open(leg.disk.c_str(), O_RDWR | O_DIRECT | O_CLOEXEC));
    ASSERT_TRUE(fd.valid()) << leg.disk;
    ASSERT_EQ(pread(fd.get(), buffer.get(), kMetadataBlock, leg.offset),
              static_cast<ssize_t>(kMetadataBlock));
    uint64_t magic = 0;
    uint64_t root = 0;
    memcpy(&magic, buffer.get() + kMagicAt, sizeof magic);
    memcpy(&root, buffer.get() + kIndexRootAt, sizeof root);
    ASSERT_EQ(magic, kMagic) << leg.disk << " has no metadata at " << leg.offset;
    ASSERT_GT(root, 0U);
    memset(buffer.get(), 0xa5, kMetadataBlock);
    const off_t at = leg.offset + static_cast<off_t>(root * kMetadataBlock);
    ASSERT_EQ(pwrite(fd.get(), buffer.get(), kMetadataBlock, at), static_cast<ssize_t>(kMetadataBlock));
    ASSERT_EQ(fsync(fd.get()), 0);
  }
}

}  // namespace quarry::vm
