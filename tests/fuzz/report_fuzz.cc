// Parses any bytes as LVM's report, with the tags in it: no crash, and an accepted report adds up. Entry
// point for libFuzzer; a unit test feeds it mutations of real reports too. Seeds:
// tests/fixtures/lvm/*/*.json.
#include <cstddef>
#include <cstdint>

#include "lvm/read/report_parser.h"
#include "tests/fuzz/snapshot_checks.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto group = quarry::lvm::ParseReport({reinterpret_cast<const char*>(data), size});
  if (!group.has_value()) {
    quarry::lvm::fuzz::Require(group.error().code() == quarry::Code::kCorrupt);
    return 0;
  }
  quarry::lvm::fuzz::CheckGroup(*group);
  return 0;
}
