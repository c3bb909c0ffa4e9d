#include "ctl/apply_plan.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "ctl/volume_text.h"

namespace quarry::ctl {
namespace {

using Step = ApplyStep::Kind;

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

// The steps by kind, so that they can be put in order.
struct Steps {
  std::vector<ApplyStep> unmounts, creates, grows, mounts, deletes;
};

ApplyStep Unmount(const VolumeRow& row) {
  return {Step::kUnmount,
          row.facts.name(),
          fmt::format("unmount volume {} from {}", row.facts.name(), row.facts.mount_point()),
          {},
          row};
}

ApplyStep Mount(const DeclaredVolume& declared) {
  return {Step::kMount,
          declared.name,
          fmt::format("mount volume {} at {}{}", declared.name, declared.mount_point,
                      declared.options.empty() ? "" : fmt::format(" ({})", fmt::join(declared.options, ","))),
          declared,
          {}};
}

void PlanNew(const DeclaredVolume& declared, Steps& steps) {
  const auto type = declared.parameters.find("type");
  steps.creates.push_back(
      {Step::kCreate,
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
        {Step::kGrow, name,
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
  if (!same || !row.IsUsedAt(kept)) {
    steps.mounts.push_back(Mount(declared));
  }
}

Status PlanRemovals(const std::vector<DeclaredVolume>& declared, const VolumeList& present,
                    const std::vector<std::string>& remove, Steps& steps, std::vector<std::string>& notes) {
  for (const std::string& name : remove) {
    if (std::ranges::find(declared, name, &DeclaredVolume::name) != declared.end()) {
      return Error(Code::kInvalidArgument,
                   fmt::format("--delete {}: the volume is declared; take it out of the file first", name));
    }
    const auto row = Pick(present, name, Kind::kVolume);
    if (!row.has_value()) {
      if (row.error().code() != Code::kNotFound) {
        return Error(row.error()).Context("--delete");
      }
      notes.push_back(fmt::format("there is no volume '{}' to delete", name));
      continue;
    }
    if (!row->facts.mount_point().empty()) {
      steps.unmounts.push_back(Unmount(*row));
    }
    steps.deletes.push_back({Step::kDelete,
                             name,
                             fmt::format("delete volume {} and its data: {}", name, Summary(*row)),
                             {},
                             *row});
  }
  return Ok();
}

// A directory cannot be unmounted while volumes are mounted below it. Those that stay where they are come off
// before and get back after. Only declared ones: if apply is killed in between, the next one mounts them
// again.
Status PlanChildren(const std::vector<DeclaredVolume>& declared, const VolumeList& present, Steps& steps) {
  const std::vector<ApplyStep> parents = steps.unmounts;
  for (const VolumeRow& row : present.rows) {
    const std::string& at = row.facts.mount_point();
    const std::string& name = row.facts.name();
    const auto parent = std::ranges::find_if(parents, [&](const ApplyStep& step) {
      return at.starts_with(step.present.facts.mount_point() + "/");
    });
    if (parent == parents.end() || std::ranges::find(parents, name, &ApplyStep::volume) != parents.end()) {
      continue;
    }
    const auto wish = std::ranges::find(declared, name, &DeclaredVolume::name);
    if (wish == declared.end() || wish->mount_point.empty()) {
      return Error(
          Code::kPrecondition,
          fmt::format("volume {} is to be unmounted from {}, but volume {} is mounted below it, at {}, "
                      "which is not declared: declare that mount point, or `quarryctl volume unmount {}`",
                      parent->volume, parent->present.facts.mount_point(), name, at, name));
    }
    steps.unmounts.push_back(Unmount(row));
    if (std::ranges::find(steps.mounts, name, &ApplyStep::volume) == steps.mounts.end()) {
      steps.mounts.push_back(Mount(*wish));
    }
  }
  return Ok();
}

// A path that an undeclared volume has is not taken from it.
Status CheckPaths(const std::vector<DeclaredVolume>& declared, const VolumeList& present,
                  const std::vector<std::string>& remove) {
  for (const DeclaredVolume& volume : declared) {
    for (const VolumeRow& row : present.rows) {
      const std::string& name = row.facts.name();
      const bool stays = std::ranges::find(declared, name, &DeclaredVolume::name) == declared.end() &&
                         std::ranges::find(remove, name) == remove.end();
      if (!volume.mount_point.empty() && row.facts.mount_point() == volume.mount_point && stays) {
        return Error(Code::kPrecondition,
                     fmt::format("{}: '{}' is the mount point of volume {}, which is not declared: unmount "
                                 "that one first",
                                 volume.where, volume.mount_point, name));
      }
    }
  }
  return Ok();
}

}  // namespace

NewVolume WishFor(const DeclaredVolume& declared) {
  // With a type, quarryd compares all parameters of an existing volume, also those that are not named.
  std::map<std::string, std::string> parameters = declared.parameters;
  parameters.emplace("type", "linear");
  return {.name = declared.name,
          .size = declared.size,
          .fs_type = declared.fs_type,
          .parameters = std::move(parameters)};
}

Result<ApplyPlan> PlanApply(const std::vector<DeclaredVolume>& declared, const VolumeList& present,
                            const std::vector<std::string>& remove) {
  QUARRY_TRY(CheckTogether(declared));
  Steps steps;
  ApplyPlan plan;
  for (const DeclaredVolume& volume : declared) {
    const auto row = Pick(present, volume.name, Kind::kVolume);
    if (row.has_value()) {
      QUARRY_TRY(CheckSame(volume, *row));
      PlanPresent(volume, *row, steps, plan.notes);
    } else if (row.error().code() == Code::kNotFound) {
      PlanNew(volume, steps);
    } else {
      return Error(row.error()).Context(volume.where);
    }
    if (row.has_value() && row->asked() > volume.size) {
      plan.notes.push_back(
          fmt::format("volume {} stays as large as it is, {}: {} is declared, and Quarry never "
                      "shrinks a volume",
                      volume.name, HumanBytes(row->size()), HumanBytes(volume.size)));
    }
  }
  QUARRY_TRY(CheckPaths(declared, present, remove));
  QUARRY_TRY(PlanRemovals(declared, present, remove, steps, plan.notes));
  QUARRY_TRY(PlanChildren(declared, present, steps));
  // A directory is mounted before those below it, and unmounted after them.
  std::ranges::sort(steps.mounts, {}, [](const ApplyStep& step) { return step.declared.mount_point; });
  std::ranges::sort(steps.unmounts, std::ranges::greater(),
                    [](const ApplyStep& step) { return step.present.facts.mount_point(); });
  for (auto* const part : {&steps.creates, &steps.grows, &steps.unmounts, &steps.mounts, &steps.deletes}) {
    std::ranges::move(*part, std::back_inserter(plan.steps));
  }
  return plan;
}

}  // namespace quarry::ctl
