#include "lvm/verbs/group.h"

#include <fmt/format.h>

namespace quarry::lvm {

std::string CreateGroup::Text() const {
  return fmt::format("create volume group {} of {}", group, fmt::join(devices, " "));
}

// Without -y: if LVM asks (because it found a signature after all), the empty standard input means no.
Result<Words> CreateGroup::Arguments() const {
  QUARRY_TRY(CheckGroupName(group));
  Words out = {"vgcreate",
               "--quiet",
               "--physicalextentsize",
               Kib(extent_size),
               "--metadatasize",
               Kib(metadata_size),
               "--setautoactivation",
               "n",
               "--",
               group};
  Append(out, devices);
  return out;
}

// Without -y, as CreateGroup.
Result<Words> AddPv::Arguments() const {
  QUARRY_TRY(CheckGroupName(group));
  return Words{"vgextend", "--quiet", "--metadatasize", Kib(metadata_size), "--", group, device};
}

Result<Words> RemovePv::Arguments() const {
  QUARRY_TRY(CheckGroupName(group));
  return Words{"vgreduce", "-y", "--", group, device};
}

Result<Words> RestorePv::Arguments() const {
  QUARRY_TRY(CheckGroupName(group));
  return Words{"vgextend", "-y", "--restoremissing", "--", group, device};
}

// Without --force, so that LVM refuses while a logical volume has extents there.
Result<Words> DropMissingPvs::Arguments() const {
  QUARRY_TRY(CheckGroupName(group));
  return Words{"vgreduce", "-y", "--removemissing", "--", group};
}

std::string ChangePv::Text() const {
  if (!allocatable.has_value()) {
    return fmt::format("change the tags of disk {} of group {}: add [{}], remove [{}]", device, group,
                       fmt::join(add_tags, " "), fmt::join(remove_tags, " "));
  }
  return fmt::format("let disk {} of group {} {}", device, group,
                     *allocatable ? "be used again" : "get no more extents");
}

Result<Words> ChangePv::Arguments() const {
  QUARRY_TRY(CheckGroupName(group));
  Words out = {"pvchange", "-y"};
  if (allocatable.has_value()) {
    Append(out, {"--allocatable", *allocatable ? "y" : "n"});
  }
  AppendTags(out, add_tags, remove_tags);
  Append(out, {"--", device});
  return out;
}

}  // namespace quarry::lvm
