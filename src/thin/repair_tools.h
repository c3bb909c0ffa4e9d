// RepairApi by thin-provisioning-tools, and by the metadata reader for Look() and Compare().
//
// The tools are those that LVM itself runs when it starts a pool. The reader of this room reads no space
// maps, so it cannot tell whether metadata are whole; and it writes nothing.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/subprocess.h"
#include "thin/repair_api.h"

namespace quarry::thin {

class RepairTools final : public RepairApi {
 public:
  // `children` must outlive this object. `directories`: where the tools are looked for.
  explicit RepairTools(Subprocess& children,
                       std::vector<std::string> directories = {"/usr/sbin", "/usr/bin", "/sbin", "/bin"})
      : children_(children), directories_(std::move(directories)) {}

  Status Ready() override;
  Result<StoredPool> Look(const std::string& metadata, const Call& call) override;
  Result<std::map<uint32_t, std::string>> Compare(const std::string& former, const std::string& repaired,
                                                  const Call& call) override;
  Status Check(const std::string& metadata, const Call& call) override;
  Status Repair(const std::string& from, const std::string& to, std::optional<uint64_t> transaction_id,
                const Call& call) override;

 private:
  Result<std::string> Find(std::string_view name) const;
  Status Run(std::string_view name, std::vector<std::string> words, const Call& call);

  Subprocess& children_;
  const std::vector<std::string> directories_;
};

}  // namespace quarry::thin
