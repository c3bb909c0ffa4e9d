#include "ctl/apply_plan.h"

#include <algorithm>
#include <iterator>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "ctl/volume_text.h"

namespace quarry::ctl {
namespace {

using Kind = ApplyStep::Kind;

const VolumeRow* Find(const VolumeList& list, const std::string& name) {
  const auto found = std::ranges::find_if(
      list.rows, [&](const VolumeRow& row) { return !row.is_snapshot() && row.facts.name() == name; });
  return found == list.rows.end() ? nullptr : &*found;
}

std::string FormatOf(const std::string& fs_type) {
  return fs_type.empty() ? "raw" : fs_type;
}

Status CheckSame(const DeclaredVolume& declared, const VolumeRow& row) {
  const auto differs = [&](std::string_view what, const std::string& is, const std::string& shall) {
    return Error(Code::kPrecondition,
                 fmt::format("{}: volume '{}' exists with {} {}, and {} is declared: Quarry never converts a "
                             "volume; declare {}, or make a new volume and copy the data",
                             declared.where, declared.name, what, is, shall, is));
  };
  const auto type = declared.parameters.find("type");
  const std::string shall = type == declared.parameters.end() ? "linear" : type->second;
  if (row.facts.type() != shall) {
    return differs("type", row.facts.type(), shall);
  }
  if (row.facts.fs_type() != declared.fs_type) {
    return differs("format", FormatOf(row.facts.fs_type()), FormatOf(declared.fs_type));
  }
  const auto pool = declared.parameters.find("pool");
  if (pool != declared.parameters.end() && pool->second != row.pool) {
    return differs("pool", row.pool, pool->second);
  }
  return Ok();
}

bool IsMountedAt(const VolumeRow& row, const std::string& path) {
  return std::ranges::find(row.facts.used_at(), path) != row.facts.used_at().end();
}

// The steps by kind, so that they can be put in order.
struct Steps {
  std::vector<ApplyStep> unmounts, creates, grows, mounts, deletes;
};

ApplyStep Unmount(const VolumeRow& row) {
  return {Kind::kUnmount,
          row.facts.name(),
          fmt::format("unmount volume {} from {}", row.facts.name(), row.facts.mount_point()),
          {},
          row};
}

ApplyStep Mount(const DeclaredVolume& declared) {
  return {Kind::kMount,
          declared.name,
          fmt::format("mount volume {} at {}{}", declared.name, declared.mount_point,
                      declared.options.empty() ? "" : fmt::format(" ({})", fmt::join(declared.options, ","))),
          declared,
          {}};
}

void PlanNew(const DeclaredVolume& declared, Steps& steps) {
  const auto type = declared.parameters.find("type");
  steps.creates.push_back(
      {Kind::kCreate,
       declared.name,
       fmt::format("create volume {}: {} {} {}", declared.name, HumanBytes(declared.size),
                   type == declared.parameters.end() ? "linear" : type->second, FormatOf(declared.fs_type)),
       declared,
       {}});
  if (!declared.mount_point.empty()) {
    steps.mounts.push_back(Mount(declared));
  }
}

void PlanPresent(const DeclaredVolume& declared, const VolumeRow& row, Steps& steps,
                 std::vector<std::string>& notes) {
  const std::string& name = declared.name;
  if (row.size() < declared.size) {
    steps.grows.push_back(
        {Kind::kGrow, name,
         fmt::format("grow volume {} from {} to {}", name, HumanBytes(row.size()), HumanBytes(declared.size)),
         declared, row});
  }
  const std::string& kept = row.facts.mount_point();
  if (declared.mount_point.empty()) {
    if (!kept.empty()) {
      notes.push_back(
          fmt::format("volume {} keeps its mount point {}, which is not declared: `quarryctl volume "
                      "unmount {}` takes it away",
                      name, kept, name));
    }
    return;
  }
  const bool same = kept == declared.mount_point &&
                    row.facts.mount_options() == fmt::format("{}", fmt::join(declared.options, ","));
  if (!same && !kept.empty()) {
    steps.unmounts.push_back(Unmount(row));
  }
  if (!same || !IsMountedAt(row, kept)) {
    steps.mounts.push_back(Mount(declared));
  }
}

Status PlanRemovals(const std::vector<DeclaredVolume>& declared, const VolumeList& present,
                    const std::vector<std::string>& remove, Steps& steps) {
  for (const std::string& name : remove) {
    if (std::ranges::find(declared, name, &DeclaredVolume::name) != declared.end()) {
      return Error(Code::kInvalidArgument,
                   fmt::format("--delete {}: the volume is declared; take it out of the file first", name));
    }
    const VolumeRow* const row = Find(present, name);
    if (row == nullptr) {
      continue;  // gone already
    }
    if (!row->facts.mount_point().empty()) {
      steps.unmounts.push_back(Unmount(*row));
    }
    steps.deletes.push_back({Kind::kDelete,
                             name,
                             fmt::format("delete volume {} and its data: {}", name, Summary(*row)),
                             {},
                             *row});
  }
  return Ok();
}

}  // namespace

NewVolume WishFor(const DeclaredVolume& declared) {
  return {.name = declared.name,
          .size = declared.size,
          .fs_type = declared.fs_type,
          .parameters = declared.parameters};
}

Result<ApplyPlan> PlanApply(const std::vector<DeclaredVolume>& declared, const VolumeList& present,
                            const std::vector<std::string>& remove) {
  QUARRY_TRY(CheckTogether(declared));
  Steps steps;
  ApplyPlan plan;
  for (const DeclaredVolume& volume : declared) {
    const VolumeRow* const row = Find(present, volume.name);
    if (row != nullptr) {
      QUARRY_TRY(CheckSame(volume, *row));
      PlanPresent(volume, *row, steps, plan.notes);
    } else if (!present.problems.empty()) {
      return Error(Code::kUnavailable,
                   fmt::format("volume '{}' is not there, but {}", volume.name, present.problems.front()));
    } else {
      PlanNew(volume, steps);
    }
    if (row != nullptr && row->asked() > volume.size) {
      plan.notes.push_back(
          fmt::format("volume {} stays as large as it is, {}: {} is declared, and Quarry never "
                      "shrinks a volume",
                      volume.name, HumanBytes(row->size()), HumanBytes(volume.size)));
    }
  }
  QUARRY_TRY(PlanRemovals(declared, present, remove, steps));
  // A directory is mounted before those below it, and unmounted after them.
  std::ranges::sort(steps.mounts, {}, [](const ApplyStep& step) { return step.declared.mount_point; });
  std::ranges::sort(steps.unmounts, std::ranges::greater(),
                    [](const ApplyStep& step) { return step.present.facts.mount_point(); });
  for (auto* const part : {&steps.unmounts, &steps.creates, &steps.grows, &steps.mounts, &steps.deletes}) {
    std::ranges::move(*part, std::back_inserter(plan.steps));
  }
  return plan;
}

}  // namespace quarry::ctl
