// Verbs that change a volume's devices in the kernel, not the volume itself.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "lvm/verbs/words.h"

namespace quarry::lvm {

// OK if already active. Of several volumes each is activated if possible, even if others fail; the error is
// that of one of them.
struct ActivateLvs {
  std::string group;
  std::vector<std::string> names;

  static constexpr bool kReloadsTables = false;
  std::string Text() const { return "activate " + FullNames(group, names); }
  std::string Object() const { return Several(group, names); }
  Result<Words> Arguments() const;
  CommitCount Commits() const { return 0; }
  Bytes MetadataText() const { return kNoText; }
};

// OK if already inactive. kPrecondition if the volume is open.
struct DeactivateLv {
  std::string group;
  std::string name;
  // The sequence number that the group must have once LVM holds the lock, so that the caller's proof is still
  // valid; 0: any. If the number differs, nothing is done and the answer is OK all the same, so read the
  // group afterwards.
  uint64_t seqno = 0;

  static constexpr bool kReloadsTables = false;
  std::string Text() const { return "deactivate " + Object(); }
  std::string Object() const { return FullName(group, name); }
  Result<Words> Arguments() const;
  CommitCount Commits() const { return 0; }
  Bytes MetadataText() const { return kNoText; }
};

// Makes the kernel reopen the disks of these volumes and accept failed raid legs again. Use it when disks
// have returned, under whatever name, or work again. Of several volumes each is refreshed if possible, even
// if others fail; the error is that of one of them. May commit: LVM repairs inconsistencies that it meets.
struct RefreshLvs {
  std::string group;
  std::vector<std::string> names;

  static constexpr bool kReloadsTables = true;
  std::string Text() const { return "refresh " + FullNames(group, names); }
  std::string Object() const { return Several(group, names); }
  Result<Words> Arguments() const;
  CommitCount Commits() const { return kNotCounted; }
  Bytes MetadataText() const { return kNoText; }
};

}  // namespace quarry::lvm
