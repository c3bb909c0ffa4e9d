// apply.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <memory>
#include <ranges>
#include <span>
#include <thread>
#include <utility>

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "ctl/apply_plan.h"
#include "ctl/cli/tables.h"
#include "ctl/cli/volumes.h"
#include "ctl/json_text.h"
#include "ctl/mount_point.h"
#include "engine/model/profile.h"

namespace quarry::ctl {
namespace {

constexpr std::chrono::seconds kPause{1};
constexpr const char* kUsualFolder = "/etc/quarry/volumes.d";

struct Wish {
  std::vector<std::string> files, remove;
  bool dry_run = false;
};

Result<std::string> ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    return ErrnoError(fmt::format("opening '{}'", path)).As(Code::kInvalidArgument);
  }
  return std::string(std::istreambuf_iterator<char>(file), {});
}

// The .toml files of the usual folder, by name.
Result<std::vector<std::string>> UsualFiles() {
  std::error_code failed;
  std::vector<std::string> out;
  for (const auto& entry : std::filesystem::directory_iterator(kUsualFolder, failed)) {
    if (entry.path().extension() == ".toml") {
      out.push_back(entry.path());
    }
  }
  if (failed) {
    return Error(Code::kInvalidArgument,
                 fmt::format("--file: is missing, and '{}': {}", kUsualFolder, failed.message()));
  }
  std::ranges::sort(out);
  return out;
}

Result<std::vector<DeclaredVolume>> ReadDeclarations(const std::vector<std::string>& named) {
  std::vector<std::string> files = named;
  if (files.empty()) {
    QUARRY_ASSIGN(files, UsualFiles());
  }
  std::vector<DeclaredVolume> out;
  for (const std::string& file : files) {
    QUARRY_ASSIGN(const std::string text, ReadFile(file));
    QUARRY_ASSIGN(std::vector<DeclaredVolume> volumes, ParseDeclaration(text, file));
    std::ranges::move(volumes, std::back_inserter(out));
  }
  for (DeclaredVolume& volume : out) {
    QUARRY_TRY(ParseOwner(volume.owner, volume.mode).Context(volume.where));
    volume.mount_point = volume.mount_point.empty() ? "" : WithoutLinks(volume.mount_point);
  }
  QUARRY_TRY(CheckTogether(out));
  return out;
}

// Every parameter of the volumes that exist, which quarryd knows.
Status CheckParameters(VolumeClient& client, const std::vector<DeclaredVolume>& declared,
                       const VolumeList& present) {
  for (const DeclaredVolume& volume : declared) {
    const auto row = Pick(present, volume.name, Kind::kVolume);
    if (!row.has_value()) {
      continue;
    }
    QUARRY_ASSIGN(const std::string difference,
                  client.Difference(row->facts.volume_id(), WishFor(volume), CallWithin(kPatience)));
    if (!difference.empty()) {
      return Error(Code::kPrecondition, fmt::format("{}: volume '{}' exists, and is not what is declared: {}",
                                                    volume.where, volume.name, difference));
    }
  }
  return Ok();
}

// What steps need that only this node and quarryd can tell. Nothing is changed yet.
Status CheckSteps(VolumeClient& client, const ApplyPlan& plan, const VolumeList& present, bool dry_run) {
  for (const ApplyStep& step : plan.steps) {
    const DeclaredVolume& declared = step.declared;
    if (step.kind == ApplyStep::Kind::kCreate) {
      QUARRY_TRY(engine::Profile::Parse(declared.parameters, "").Context(declared.where));
      // Otherwise quarryd may wait for space that is being erased.
      if (dry_run) {
        QUARRY_TRY(CheckNewVolume(client, WishFor(declared)).Context(declared.where));
      }
    }
    const bool is_free = std::ranges::none_of(present.rows, [&](const VolumeRow& row) {
      return row.IsUsedAt(declared.mount_point);  // by a volume that is unmounted first, or by this one
    });
    if (step.kind == ApplyStep::Kind::kMount && is_free) {
      QUARRY_TRY(CheckMountPoint(declared.mount_point).Context(declared.where));
    }
  }
  return Ok();
}

// Adds the steps that give root directories their owners and modes, after the mounts.
Status PlanOwners(const std::vector<DeclaredVolume>& declared, const VolumeList& present, ApplyPlan& plan) {
  std::vector<ApplyStep> steps;
  for (const DeclaredVolume& volume : declared) {
    QUARRY_ASSIGN(const Ownership wish, ParseOwner(volume.owner, volume.mode));
    if (wish.empty()) {
      continue;
    }
    const auto row = Pick(present, volume.name, Kind::kVolume);
    bool differs = true;
    if (row.has_value() && row->IsUsedAt(volume.mount_point)) {
      QUARRY_ASSIGN(differs, Differs(volume.mount_point, wish));
    }
    if (differs) {
      steps.push_back({ApplyStep::Kind::kOwn,
                       volume.name,
                       fmt::format("set owner and mode of {}", volume.mount_point),
                       volume,
                       {}});
    }
  }
  const auto deletes = std::ranges::find(plan.steps, ApplyStep::Kind::kDelete, &ApplyStep::kind);
  plan.steps.insert(deletes, steps.begin(), steps.end());
  return Ok();
}

Status Take(VolumeClient& client, const ApplyStep& step) {
  const Call call = CallWithin(kChangePatience);
  switch (step.kind) {
    case ApplyStep::Kind::kUnmount:
      QUARRY_TRY(client.Unmount(step.present.facts.volume_id(), "", call));
      return Ok();
    case ApplyStep::Kind::kCreate:
      QUARRY_TRY(client.Create(WishFor(step.declared), call));
      return Ok();
    case ApplyStep::Kind::kGrow:
      QUARRY_TRY(client.Grow(step.present, step.declared.size, call));
      return Ok();
    case ApplyStep::Kind::kMount: {
      QUARRY_ASSIGN(const VolumeRow row, client.Find(step.volume, Kind::kVolume, call));
      QUARRY_TRY(MountVolume(client, row, step.declared.mount_point, step.declared.options));
      return Ok();
    }
    case ApplyStep::Kind::kOwn: {
      QUARRY_ASSIGN(const VolumeRow row, client.Find(step.volume, Kind::kVolume, call));
      QUARRY_ASSIGN(const Ownership wish, ParseOwner(step.declared.owner, step.declared.mode));
      if (!row.IsUsedAt(step.declared.mount_point)) {
        return Error(Code::kPrecondition, fmt::format("volume {} is not mounted there", step.volume));
      }
      QUARRY_TRY(SetOwnership(step.declared.mount_point, wish));
      return Ok();
    }
    case ApplyStep::Kind::kDelete:
      return client.Delete(step.present, call);
  }
  return Ok();
}

// After a failed step: mounts again what was unmounted and not mounted yet. Returns what was done, in words.
std::string MountAgain(VolumeClient& client, std::span<const ApplyStep> done) {
  std::string words;
  for (const ApplyStep& step : done | std::views::reverse) {  // what lies above comes first
    const bool settled = std::ranges::any_of(done, [&](const ApplyStep& other) {
      return (other.kind == ApplyStep::Kind::kMount || other.kind == ApplyStep::Kind::kDelete) &&
             other.volume == step.volume;
    });
    if (step.kind != ApplyStep::Kind::kUnmount || settled) {
      continue;
    }
    const auto& facts = step.present.facts;
    const std::string& options = facts.mount_options();
    std::vector<std::string> list;
    for (size_t at = 0; at < options.size();) {
      const size_t comma = std::min(options.find(',', at), options.size());
      list.push_back(options.substr(at, comma - at));
      at = comma + 1;
    }
    const auto again =
        client.Mount(facts.volume_id(), facts.mount_point(), list, CallWithin(kChangePatience));
    words += again.has_value() ? fmt::format("; volume {} is mounted at {} again", step.volume, again->path())
                               : fmt::format("; volume {} could not be mounted at {} again: {}", step.volume,
                                             facts.mount_point(), again.error().message());
  }
  return words;
}

std::string Report(const std::vector<std::string>& lines, const std::vector<std::string>& notes,
                   const Common& common, bool dry_run) {
  if (common.json) {
    return JsonLine({{"dry_run", dry_run}, {"steps", lines}, {"notes", notes}});
  }
  std::string text = lines.empty() ? "nothing to do: every volume is as declared\n" : "";
  for (const std::string& line : lines) {
    text += fmt::format("{}{}\n", dry_run ? "would " : "done: ", line);
  }
  for (const std::string& note : notes) {
    text += fmt::format("note: {}\n", note);
  }
  return text;
}

struct Present {
  VolumeList list;
  ApplyPlan plan;
};

// Waits while a pool that may have a declared volume cannot be read.
Result<Present> PlanWhenReadable(VolumeClient& client, const std::vector<DeclaredVolume>& declared,
                                 const std::vector<std::string>& remove) {
  const Call call = CallWithin(kChangePatience);
  std::string told;
  while (true) {
    QUARRY_ASSIGN(VolumeList list, client.List(CallWithin(kPatience)));
    auto plan = PlanApply(declared, list, remove);
    if (plan.has_value()) {
      return Present{std::move(list), std::move(*plan)};
    }
    if (plan.error().code() != Code::kUnavailable || call.Remaining() <= kPause) {
      return std::move(plan.error());
    }
    if (std::exchange(told, plan.error().message()) != plan.error().message()) {
      TellWaiting(told);
    }
    std::this_thread::sleep_for(kPause);
  }
}

// File systems that an earlier run could not grow after their volumes.
Status GrowFilesystems(VolumeClient& client, const std::vector<DeclaredVolume>& declared,
                       const VolumeList& present) {
  for (const DeclaredVolume& volume : declared) {
    if (const auto row = Pick(present, volume.name, Kind::kVolume); row.has_value()) {
      QUARRY_TRY(client.GrowFilesystem(*row, CallWithin(kChangePatience))
                     .Context(fmt::format("growing the file system of volume {}", volume.name)));
    }
  }
  return Ok();
}

Result<std::string> Apply(VolumeClient& client, const Wish& wish, const Common& common) {
  QUARRY_ASSIGN(const auto declared, ReadDeclarations(wish.files));
  QUARRY_ASSIGN(Present present, PlanWhenReadable(client, declared, wish.remove));
  QUARRY_TRY(CheckParameters(client, declared, present.list));
  QUARRY_TRY(CheckSteps(client, present.plan, present.list, wish.dry_run));
  QUARRY_TRY(PlanOwners(declared, present.list, present.plan));
  const std::vector<ApplyStep>& steps = present.plan.steps;
  std::vector<std::string> lines;
  for (size_t i = 0; i < steps.size(); ++i) {
    const Status taken = wish.dry_run ? Ok() : Take(client, steps[i]);
    if (!taken.has_value()) {
      std::string before;
      for (const std::string& line : lines) {
        before += fmt::format("done: {}\n", line);
      }
      std::cout << before;
      return Error(taken.error().code(), fmt::format("{}: {}{}", steps[i].text, taken.error().message(),
                                                     MountAgain(client, std::span(steps).first(i))));
    }
    lines.push_back(steps[i].text);
  }
  if (!wish.dry_run) {
    QUARRY_ASSIGN(const VolumeList now, client.List(CallWithin(kPatience)));
    QUARRY_TRY(GrowFilesystems(client, declared, now));
  }
  return Report(lines, present.plan.notes, common, wish.dry_run);
}

Run SetUpApply(CLI::App& sub, const Common& common) {
  const auto wish = std::make_shared<Wish>();
  sub.add_option("-f,--file", wish->files,
                 fmt::format("file that declares volumes; repeatable [every .toml file in {}]", kUsualFolder))
      ->allow_extra_args(false);
  sub.add_option("--delete", wish->remove,
                 "name of a volume that is declared no more, to be deleted with its data; repeatable")
      ->allow_extra_args(false);
  AddDryRun(sub, wish->dry_run);
  sub.footer(
      "Example: quarryctl apply -f volumes.toml --dry-run\n"
      "Makes, grows and mounts what is declared. Never shrinks, and deletes only what --delete names.");
  return AskQuarryd(sub, common, [wish, &common](AdminClient& admin, int&) {
    VolumeClient client(admin.channel(), &TellWaiting);
    return Apply(client, *wish, common);
  });
}

}  // namespace

std::vector<Command> DeclarationCommands() {
  return {{"apply", "make the volumes that files declare, and mount them; --dry-run shows the steps",
           &SetUpApply}};
}

}  // namespace quarry::ctl
