// volume create, list, show, grow, mount, unmount, delete, snapshot, restore, clone.

#include <memory>

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "ctl/cli/tables.h"
#include "ctl/cli/volumes.h"
#include "ctl/json_text.h"
#include "ctl/mount_point.h"
#include "ctl/volume_text.h"
#include "mount/mount_api.h"

namespace quarry::ctl {
namespace {

// A copy of a large volume takes hours. An interrupt ends the waiting, not the copy.
constexpr std::chrono::hours kCopyPatience{24 * 7};

using AskVolumes = std::function<Result<std::string>(VolumeClient&, int& exit_status)>;

Run AskAboutVolumes(CLI::App& sub, const Common& common, const AskVolumes& ask) {
  return AskQuarryd(sub, common, [ask](AdminClient& admin, int& exit_status) {
    VolumeClient client(admin.channel(), &TellWaiting);
    return ask(client, exit_status);
  });
}

// The volume as it is now, for the answer of a command that has changed it.
Result<std::string> Answer(VolumeClient& client, const Common& common, const std::string& id,
                           const std::string& words) {
  if (!common.json) {
    return words + "\n";
  }
  QUARRY_ASSIGN(const VolumeList list, client.List(CallWithin(kPatience)));
  QUARRY_ASSIGN(const VolumeRow row, Pick(list, id));
  return VolumeJson(row);
}

Status CheckNoBucket(const VolumeRow& row) {
  return row.facts.is_bucket()
             ? Error(Code::kPrecondition,
                     fmt::format("volume {} serves a bucket: use `quarryctl bucket`", row.facts.name()))
             : Ok();
}

Result<VolumeRow> FindVolume(VolumeClient& client, const std::string& name) {
  QUARRY_ASSIGN(VolumeRow row, client.Find(name, Kind::kVolume, CallWithin(kPatience)));
  QUARRY_TRY(CheckNoBucket(row));
  return row;
}

// The answer of a command that has changed nothing.
std::string Nothing(const Common& common, const std::string& words) {
  return common.json ? JsonLine({{"changed", false}, {"text", words}}) : words + "\n";
}

// The options of create and mount that say where to.
struct MountWish {
  std::string path;
  std::vector<std::string> options;
  std::string owner, mode;
};

void AddMountOptions(CLI::App& sub, MountWish& wish) {
  sub.add_option("-o,--option", wish.options, "mount option, such as noatime or ro; repeatable")
      ->allow_extra_args(false);
  sub.add_option("--owner", wish.owner, "USER, USER:GROUP or :GROUP that gets the root directory");
  sub.add_option("--mode", wish.mode, "mode of the root directory, in octal digits");
}

Result<Ownership> OwnershipOf(const MountWish& wish) {
  std::optional<uint32_t> mode;
  if (!wish.mode.empty()) {
    if (wish.mode.size() > 4 || wish.mode.find_first_not_of("01234567") != std::string::npos) {
      return Error(Code::kInvalidArgument,
                   fmt::format("--mode: must be octal digits, as in 0750, is '{}'", wish.mode));
    }
    mode = static_cast<uint32_t>(std::stoul(wish.mode, nullptr, 8));
  }
  return ParseOwner(wish.owner, mode);
}

Result<std::string> MountNow(VolumeClient& client, const VolumeRow& row, const MountWish& wish) {
  QUARRY_ASSIGN(const Ownership ownership, OwnershipOf(wish));
  QUARRY_ASSIGN(const std::string path, MountVolume(client, row, wish.path, wish.options));
  if (!ownership.empty()) {
    QUARRY_TRY(SetOwnership(path, ownership));
  }
  return path;
}

Run SetUpCreate(CLI::App& sub, const Common& common) {
  struct Wish : MountWish {
    NewVolume volume;
    std::string size;
    std::vector<std::string> parameters;
    bool raw = false, dry_run = false;
  };
  const auto wish = std::make_shared<Wish>();
  wish->volume.fs_type = "ext4";
  sub.add_option("NAME", wish->volume.name, "name of the new volume")->required();
  sub.add_option("parameters", wish->parameters, "KEY=VALUE…, as in a StorageClass: type=raid1 pool=fast");
  sub.add_option("--size", wish->size, "such as 10GiB")->required();
  sub.add_option("--fs", wish->volume.fs_type, "ext4, xfs or btrfs [ext4]");
  sub.add_flag("--raw", wish->raw, "no file system: the volume is a block device")->excludes("--fs");
  sub.add_option("--mount", wish->path, "where to mount it, now and after each restart");
  AddMountOptions(sub, *wish);
  AddDryRun(sub, wish->dry_run);
  sub.footer(
      "Example: quarryctl volume create data --size 100GiB type=raid1 --mount /srv/data --owner postgres");
  return AskAboutVolumes(sub, common, [wish, &common](VolumeClient& client, int&) -> Result<std::string> {
    QUARRY_ASSIGN(wish->volume.size, ParseSize(wish->size).Context("--size"));
    QUARRY_ASSIGN(wish->volume.parameters, ParseParameters(wish->parameters));
    wish->volume.fs_type = wish->raw ? "" : wish->volume.fs_type;
    if (wish->path.empty() ? !wish->options.empty() || !wish->owner.empty() || !wish->mode.empty()
                           : wish->raw) {
      return Error(Code::kInvalidArgument,
                   "--option, --owner and --mode need --mount, and --mount a file system");
    }
    // Everything is checked before anything is made.
    QUARRY_TRY(OwnershipOf(*wish));
    QUARRY_TRY(mount::ParseMountOptions(wish->options).Context("--option"));
    QUARRY_ASSIGN(const VolumeList before, client.List(CallWithin(kPatience)));
    const bool there = Pick(before, wish->volume.name, Kind::kVolume).has_value();
    if (!wish->path.empty()) {
      QUARRY_ASSIGN(wish->path, ParseMountPoint(wish->path).Context("--mount"));
      QUARRY_TRY(there ? Ok() : CheckMountPoint(wish->path));
    }
    if (wish->dry_run) {
      if (there) {
        return Nothing(common, fmt::format("there is already a volume '{}'", wish->volume.name));
      }
      QUARRY_ASSIGN(const Bytes most, CheckNewVolume(client, wish->volume));
      return Nothing(common, fmt::format("would create volume {} of {}; such a volume could have up to {}",
                                         wish->volume.name, HumanBytes(wish->volume.size), HumanBytes(most)));
    }
    QUARRY_ASSIGN(const std::string id, client.Create(wish->volume, CallWithin(kChangePatience)));
    QUARRY_ASSIGN(const VolumeRow row, FindVolume(client, id));
    std::string words = fmt::format("{} volume {}: {}", there ? "there is already" : "created",
                                    wish->volume.name, Summary(row));
    if (!wish->path.empty()) {
      QUARRY_ASSIGN(const std::string path, MountNow(client, row, *wish));
      words += fmt::format(", mounted at {}", path);
    }
    return Answer(client, common, id, words);
  });
}

Run SetUpList(CLI::App& sub, const Common& common) {
  sub.footer(
      "Example: quarryctl volume list\nA path in parentheses is a mount point where the volume is not "
      "mounted now.");
  return AskAboutVolumes(sub, common,
                         [&common](VolumeClient& client, int& exit_status) -> Result<std::string> {
                           QUARRY_ASSIGN(const VolumeList list, client.List(CallWithin(kPatience)));
                           exit_status = list.problems.empty() ? 0 : 1;
                           return common.json ? VolumeListJson(list) : VolumeTable(list);
                         });
}

Run SetUpShow(CLI::App& sub, const Common& common) {
  const auto name = std::make_shared<std::string>();
  sub.add_option("NAME", *name, "name or id of a volume or snapshot")->required();
  sub.footer("Example: quarryctl volume show data");
  return AskAboutVolumes(sub, common, [name, &common](VolumeClient& client, int&) -> Result<std::string> {
    QUARRY_ASSIGN(const VolumeList list, client.List(CallWithin(kPatience)));
    QUARRY_ASSIGN(const VolumeRow row, Pick(list, *name));
    return common.json ? VolumeJson(row) : VolumePage(row, list);
  });
}

Run SetUpGrow(CLI::App& sub, const Common& common) {
  struct Wish {
    std::string name, size;
    bool dry_run = false;
  };
  const auto wish = std::make_shared<Wish>();
  sub.add_option("NAME", wish->name, "name or id of the volume")->required();
  sub.add_option("--size", wish->size, "its new size, such as 20GiB; +5GiB adds to the present size")
      ->required();
  AddDryRun(sub, wish->dry_run);
  sub.footer(
      "Example: quarryctl volume grow data --size +50GiB\nThe volume may be in use; its file system grows "
      "too.");
  return AskAboutVolumes(sub, common, [wish, &common](VolumeClient& client, int&) -> Result<std::string> {
    const bool more = wish->size.starts_with('+');
    QUARRY_ASSIGN(Bytes size, ParseSize(wish->size.substr(more ? 1 : 0)).Context("--size"));
    QUARRY_ASSIGN(const VolumeRow row, FindVolume(client, wish->name));
    size = more ? row.size() + size : size;
    const std::string& name = row.facts.name();
    if (size < row.asked()) {
      return Error(Code::kInvalidArgument, fmt::format("--size: volume {} has {} already, and Quarry never "
                                                       "shrinks a volume",
                                                       name, HumanBytes(row.size())));
    }
    if (wish->dry_run) {
      return Nothing(common, fmt::format("would grow volume {} from {} to {}", name, HumanBytes(row.size()),
                                         HumanBytes(size)));
    }
    QUARRY_ASSIGN(const Bytes grown, client.Grow(row, size, CallWithin(kChangePatience)));
    return Answer(client, common, row.facts.volume_id(),
                  grown == row.size() ? fmt::format("volume {} has {} already", name, HumanBytes(grown))
                                      : fmt::format("volume {} has grown from {} to {}", name,
                                                    HumanBytes(row.size()), HumanBytes(grown)));
  });
}

Run SetUpMount(CLI::App& sub, const Common& common) {
  struct Wish : MountWish {
    std::string name;
  };
  const auto wish = std::make_shared<Wish>();
  sub.add_option("NAME", wish->name, "name or id of the volume")->required();
  sub.add_option("PATH", wish->path, "directory [its mount point, if it has one]");
  AddMountOptions(sub, *wish);
  sub.footer(
      "Example: quarryctl volume mount data /srv/data -o noatime\nquarryd mounts it again after each "
      "restart.");
  return AskAboutVolumes(sub, common, [wish, &common](VolumeClient& client, int&) -> Result<std::string> {
    if (wish->path.empty() && !wish->options.empty()) {
      return Error(Code::kInvalidArgument,
                   "--option: needs PATH too; the options are kept with the mount point");
    }
    // At a boot its pool may take minutes to start.
    QUARRY_ASSIGN(const VolumeRow row, client.Find(wish->name, Kind::kVolume, CallWithin(kChangePatience)));
    QUARRY_ASSIGN(const std::string path, MountNow(client, row, *wish));
    return Answer(client, common, row.facts.volume_id(),
                  fmt::format("volume {} is mounted at {}", row.facts.name(), path));
  });
}

Run SetUpUnmount(CLI::App& sub, const Common& common) {
  struct Wish {
    std::string name, path;
  };
  const auto wish = std::make_shared<Wish>();
  sub.add_option("NAME", wish->name, "name or id of the volume")->required();
  sub.add_option("PATH", wish->path, "directory [its mount point]");
  sub.footer("Example: quarryctl volume unmount data\nThe volume is not mounted after a restart either.");
  return AskAboutVolumes(sub, common, [wish, &common](VolumeClient& client, int&) -> Result<std::string> {
    QUARRY_ASSIGN(const VolumeRow row, FindVolume(client, wish->name));
    QUARRY_ASSIGN(const auto done,
                  client.Unmount(row.facts.volume_id(), wish->path.empty() ? "" : WithoutLinks(wish->path),
                                 CallWithin(kChangePatience)));
    return Answer(client, common, row.facts.volume_id(),
                  done.changed()
                      ? fmt::format("volume {} is unmounted from {}", row.facts.name(), done.path())
                      : fmt::format("volume {} was not mounted", row.facts.name()));
  });
}

Run SetUpDelete(CLI::App& sub, const Common& common) {
  struct Wish {
    std::string name;
    bool yes = false, dry_run = false;
  };
  const auto wish = std::make_shared<Wish>();
  sub.add_option("NAME", wish->name, "name or id of a volume or snapshot")->required();
  sub.add_flag("--yes", wish->yes, "do not ask");
  AddDryRun(sub, wish->dry_run);
  sub.footer(
      "Example: quarryctl volume delete data --yes\nIts bytes are erased, and cannot be brought back.");
  return AskAboutVolumes(sub, common, [wish, &common](VolumeClient& client, int&) -> Result<std::string> {
    const auto row = client.Find(wish->name, Kind::kAny, CallWithin(kPatience));
    if (!row.has_value() && row.error().code() == Code::kNotFound && wish->yes) {
      return Nothing(common,
                     fmt::format("there is no volume '{}' any more", wish->name));  // scripts repeat it
    }
    QUARRY_TRY(row);
    QUARRY_TRY(CheckNoBucket(*row));
    const std::string what =
        fmt::format("{} {}", row->is_snapshot() ? "snapshot" : "volume", row->facts.name());
    if (!row->facts.mount_point().empty()) {
      return Error(Code::kPrecondition,
                   fmt::format("{} has the mount point {}: `quarryctl volume unmount {}` first", what,
                               row->facts.mount_point(), row->facts.name()));
    }
    if (wish->dry_run) {
      return Nothing(common, fmt::format("would delete {} and its data: {}", what, Summary(*row)));
    }
    if (!wish->yes) {
      QUARRY_TRY(Confirm(fmt::format("{} ({}) and its data will be gone for good.", what, Summary(*row)),
                         row->facts.name()));
    }
    QUARRY_TRY(client.Delete(*row, CallWithin(kChangePatience)));
    return common.json ? VolumeJson(*row) : fmt::format("deleted {}\n", what);
  });
}

Run SetUpSnapshot(CLI::App& sub, const Common& common) {
  struct Wish {
    std::string volume, name;
    std::vector<std::string> parameters;
  };
  const auto wish = std::make_shared<Wish>();
  sub.add_option("VOLUME", wish->volume, "name or id of the volume")->required();
  sub.add_option("NAME", wish->name, "name of the snapshot")->required();
  sub.add_option(
      "parameters", wish->parameters,
      "KEY=VALUE…, as in a VolumeSnapshotClass; inuse=cow if the volume is in use [as the volume]");
  sub.footer("Example: quarryctl volume snapshot data data-before-upgrade inuse=cow");
  return AskAboutVolumes(sub, common, [wish, &common](VolumeClient& client, int&) -> Result<std::string> {
    QUARRY_ASSIGN(const VolumeRow row, FindVolume(client, wish->volume));
    QUARRY_ASSIGN(const auto parameters, ParseParameters(wish->parameters));
    QUARRY_ASSIGN(const std::string id,
                  client.Snapshot(row.facts.volume_id(), wish->name, parameters, CallWithin(kCopyPatience)));
    return Answer(client, common, id, fmt::format("snapshot {} of volume {}", wish->name, row.facts.name()));
  });
}

// For restore and clone. `kSnapshot`: of a snapshot.
template <bool kSnapshot>
Run SetUpCopy(CLI::App& sub, const Common& common) {
  struct Wish {
    std::string source;
    NewVolume volume;
    std::string size;
    std::vector<std::string> parameters;
  };
  const auto wish = std::make_shared<Wish>();
  sub.add_option(kSnapshot ? "SNAPSHOT" : "VOLUME", wish->source,
                 kSnapshot ? "name or id of the snapshot" : "name or id of the volume")
      ->required();
  sub.add_option("NAME", wish->volume.name, "name of the new volume")->required();
  sub.add_option("parameters", wish->parameters,
                 kSnapshot
                     ? "KEY=VALUE…, as in a StorageClass [type and pool of the source, and the usual values]"
                     : "KEY=VALUE…, as in a StorageClass; inuse=cow if the volume is in use [type and pool "
                       "of the source, and the usual values]");
  sub.add_option("--size", wish->size, "if it shall be larger, such as 20GiB");
  sub.footer(kSnapshot ? "Example: quarryctl volume restore data-before-upgrade data2"
                       : "Example: quarryctl volume clone data data2");
  return AskAboutVolumes(sub, common, [wish, &common](VolumeClient& client, int&) -> Result<std::string> {
    QUARRY_ASSIGN(const VolumeRow row, client.Find(wish->source, kSnapshot ? Kind::kSnapshot : Kind::kVolume,
                                                   CallWithin(kChangePatience)));
    wish->volume.size = row.asked();
    if (!wish->size.empty()) {
      QUARRY_ASSIGN(wish->volume.size, ParseSize(wish->size).Context("--size"));
    }
    QUARRY_ASSIGN(wish->volume.parameters, ParseParameters(wish->parameters));
    wish->volume.parameters.emplace("type", row.facts.type());
    wish->volume.parameters.emplace("pool", row.pool);
    wish->volume.fs_type = row.facts.fs_type();
    (kSnapshot ? wish->volume.source_snapshot : wish->volume.source_volume) = row.facts.volume_id();
    QUARRY_ASSIGN(const std::string id, client.Create(wish->volume, CallWithin(kCopyPatience)));
    return Answer(client, common, id,
                  fmt::format("volume {} has the bytes of {} {}", wish->volume.name,
                              kSnapshot ? "snapshot" : "volume", row.facts.name()));
  });
}

}  // namespace

std::vector<Command> VolumeCommands() {
  return {
      {"create", "make a volume, with a file system or raw, and mount it if you like", &SetUpCreate},
      {"list", "every volume and snapshot", &SetUpList},
      {"show", "all that is known of one volume", &SetUpShow},
      {"grow", "make a volume larger, while it is in use", &SetUpGrow},
      {"mount", "mount a volume, now and after each restart", &SetUpMount},
      {"unmount", "unmount a volume for good", &SetUpUnmount},
      {"delete", "delete a volume or a snapshot, and erase its bytes", &SetUpDelete},
      {"snapshot", "make a snapshot of a volume", &SetUpSnapshot},
      {"restore", "make a volume of a snapshot", &SetUpCopy<true>},
      {"clone", "make a volume with the bytes of another", &SetUpCopy<false>},
  };
}

}  // namespace quarry::ctl
