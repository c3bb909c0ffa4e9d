// apply.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <utility>

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "ctl/apply_plan.h"
#include "ctl/cli/tables.h"
#include "ctl/cli/volumes.h"
#include "ctl/json_text.h"
#include "ctl/mount_point.h"

namespace quarry::ctl {
namespace {

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
  QUARRY_TRY(CheckTogether(out));
  for (const DeclaredVolume& volume : out) {
    QUARRY_TRY(ParseOwner(volume.owner, volume.mode).Context(volume.where));
  }
  return out;
}

// Every parameter of the volumes that exist, which quarryd knows.
Status CheckParameters(VolumeClient& client, const std::vector<DeclaredVolume>& declared,
                       const VolumeList& present) {
  for (const DeclaredVolume& volume : declared) {
    const auto row = Pick(present, volume.name);
    if (!row.has_value() || row->is_snapshot()) {
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
      QUARRY_ASSIGN(const VolumeList list, client.List(CallWithin(kPatience)));
      QUARRY_ASSIGN(const VolumeRow row, Pick(list, step.volume));
      QUARRY_TRY(MountVolume(client, row, step.declared.mount_point, step.declared.options));
      return Ok();
    }
    case ApplyStep::Kind::kDelete:
      return client.Delete(step.present, call);
  }
  return Ok();
}

// Owners and modes of what is mounted by now.
Status SetOwners(const std::vector<DeclaredVolume>& declared, std::vector<std::string>& done) {
  for (const DeclaredVolume& volume : declared) {
    QUARRY_ASSIGN(const Ownership wish, ParseOwner(volume.owner, volume.mode));
    if (wish.empty()) {
      continue;
    }
    QUARRY_ASSIGN(const bool changed, SetOwnership(volume.mount_point, wish));
    if (changed) {
      done.push_back(fmt::format("set owner and mode of {}", volume.mount_point));
    }
  }
  return Ok();
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

Result<std::string> Apply(VolumeClient& client, const Wish& wish, const Common& common) {
  QUARRY_ASSIGN(const auto declared, ReadDeclarations(wish.files));
  QUARRY_ASSIGN(const VolumeList present, client.List(CallWithin(kPatience)));
  QUARRY_ASSIGN(const ApplyPlan plan, PlanApply(declared, present, wish.remove));
  QUARRY_TRY(CheckParameters(client, declared, present));
  std::vector<std::string> lines;
  for (const ApplyStep& step : plan.steps) {
    if (!wish.dry_run) {
      std::string before;
      for (const std::string& line : lines) {
        before += fmt::format("done: {}\n", line);
      }
      QUARRY_TRY(Take(client, step).Context(fmt::format("{}{}", before, step.text)));
    }
    lines.push_back(step.text);
  }
  if (!wish.dry_run) {
    QUARRY_TRY(SetOwners(declared, lines));
  }
  return Report(lines, plan.notes, common, wish.dry_run);
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
