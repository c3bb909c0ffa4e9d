// The programs of thin-provisioning-tools, run and parsed: what the reader is compared with.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "thin/difference.h"
#include "thin/metadata_reader.h"

namespace quarry::thin::testing {

struct DumpedDevice {
  Device facts;
  std::map<uint64_t, uint64_t> mappings;
};
struct Dump {
  uint64_t transaction_id = 0;
  uint64_t data_block_sectors = 0;
  std::map<DeviceId, DumpedDevice> devices;
};

// The output of a program of /usr/sbin; its words as an error if it fails.
Result<std::string> RunThinTool(std::vector<std::string> argv);

// thin_dump, of 0.9 and of 1.x, which names mappings that devices share.
Result<Dump> DumpMetadata(const std::string& path, Root root);
// thin_delta, block by block: only what differs.
Result<std::map<uint64_t, Change>> DeltaOf(const std::string& path, Root root, DeviceId base,
                                           DeviceId target);

// Compares everything that the reader reports of the metadata at `path` with these programs and with brute
// force over their output: devices, mappings, differences of up to `pairs` pairs of devices, exclusive blocks
// of each device. A line for each disagreement. `compared`: what was compared, in words.
std::vector<std::string> Disagreements(const std::string& path, Root root, size_t pairs,
                                       std::string* compared = nullptr);

}  // namespace quarry::thin::testing
