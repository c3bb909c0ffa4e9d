// Implements PvReader by reading the headers on the disks.
#pragma once

#include <string>
#include <vector>

#include "lvm/fresh/metadata_header_reader.h"
#include "lvm/pv_reader.h"

namespace quarry::lvm {

// Thread-safe.
class HeaderPvReader final : public PvReader {
 public:
  // `headers` must outlive the object.
  explicit HeaderPvReader(HeaderSource& headers) : headers_(headers) {}

  Result<std::vector<PvFacts>> ReadPvs(const std::vector<std::string>& devices, const Call& call) override;

 private:
  void FindGroup(const std::string& device, const PvState& state, const Call& call, PvFacts& facts);

  HeaderSource& headers_;
};

}  // namespace quarry::lvm
