#include "ctl/orphans.h"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/units.h"
#include "ctl/json_text.h"
#include "lvm/names.h"

namespace quarry::ctl {
namespace {

using engine::Record;
using std::chrono::days;
using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;

std::optional<seconds> AgeOf(const Record& record, std::chrono::system_clock::time_point now) {
  if (record.lv->created == 0) {
    return std::nullopt;
  }
  const auto made = std::chrono::system_clock::from_time_t(static_cast<time_t>(record.lv->created));
  return std::max(std::chrono::duration_cast<seconds>(now - made), seconds(0));
}

Orphan Describe(const Record& record, const OrphanQuestion& question) {
  Orphan out;
  out.id = record.tags.id;
  out.name = record.tags.co_name;
  out.pool = record.pool;
  out.type = record.lv->segment_type;
  out.logical_volume = fmt::format("{}/{}", record.group->name, record.lv->name);
  out.size = record.tags.size;
  out.snapshot = record.tags.snapshot;
  out.age = AgeOf(record, question.now);
  out.young = out.age.has_value() && *out.age < question.least_age;
  return out;
}

class Comparison {
 public:
  explicit Comparison(const OrphanQuestion& question)
      : question_(question), with_snapshots_(question.snapshots || question.known.lists_snapshots) {}

  Orphans Run() {
    if (!question_.node.empty()) {
      our_hashes_.insert(lvm::NodeHash(question_.node));
    }
    for (const engine::Catalog& catalog : question_.catalogs) {
      for (const engine::Unreadable& one : catalog.unreadable) {
        found_.unreadable.push_back(fmt::format("{}/{}: {}", catalog.group->name, one.lv->name, one.why));
      }
      for (const Record& record : catalog.records) {
        LookAt(record);
      }
    }
    for (const auto& [id, node] : question_.known.volumes) {
      Place(id, node);
    }
    for (const std::string& id : question_.known.snapshots) {
      Place(id, "");
    }
    return std::move(found_);
  }

 private:
  bool IsKnown(const std::string& id) const {
    return question_.known.volumes.contains(id) || question_.known.snapshots.contains(id);
  }

  void LookAt(const Record& record) {
    if (record.tags.state == lvm::VolumeState::kCreating || !record.tags.s3.empty()) {
      return;  // a bucket is known to COSI or to an administrator, not to the orchestrator of volumes
    }
    if (engine::IsErasing(record)) {
      erasing_.insert(record.tags.id);
      return;
    }
    here_.insert(record.tags.id);
    if (const auto parts = lvm::ParseVolumeId(record.tags.id); parts && !parts->node_hash.empty()) {
      our_hashes_.insert(parts->node_hash);
    }
    if (IsKnown(record.tags.id)) {
      ++found_.known;
    } else if (record.tags.ephemeral) {
      ++found_.inline_left_out;
    } else if (!record.tags.mount_point.empty()) {
      ++found_.by_hand_left_out;
    } else if (record.tags.snapshot && !with_snapshots_) {
      ++found_.snapshots_left_out;
    } else {
      found_.orphans.push_back(Describe(record, question_));
    }
  }

  // Whether an id of the list that is not here should be.
  void Place(const std::string& id, const std::string& node) {
    if (here_.contains(id)) {
      return;
    }
    const auto parts = lvm::ParseVolumeId(id);
    const std::string hash = parts.has_value() ? parts->node_hash : "";
    const bool told = !hash.empty() || (!node.empty() && !question_.node.empty());
    if (!told) {
      ++found_.unplaced;
    } else if (hash.empty() ? node == question_.node : our_hashes_.contains(hash)) {
      (erasing_.contains(id) ? found_.deleted : found_.missing).push_back(id);
    }
  }

  const OrphanQuestion& question_;
  const bool with_snapshots_;
  std::set<std::string> our_hashes_;  // of this node: its id may have changed
  std::set<std::string> here_, erasing_;
  Orphans found_;
};

std::string AgeText(const Orphan& orphan) {
  if (!orphan.age.has_value()) {
    return "age unknown";
  }
  const seconds age = *orphan.age;
  return age >= days(2)      ? fmt::format("{} days old", age / days(1))
         : age >= hours(2)   ? fmt::format("{} hours old", age / hours(1))
         : age >= minutes(2) ? fmt::format("{} minutes old", age / minutes(1))
                             : fmt::format("{} s old", age.count());
}

std::string Clean(std::string text) {
  std::ranges::replace_if(text, [](unsigned char c) { return c < 0x20 || c == 0x7F; }, '?');
  return text;
}

std::string Line(const Orphan& orphan) {
  return fmt::format("  {:<8} {}  {}, {}, {}, '{}', {}\n", orphan.snapshot ? "snapshot" : "volume", orphan.id,
                     HumanBytes(orphan.size), orphan.type, AgeText(orphan), Clean(orphan.name),
                     orphan.logical_volume);
}

std::string Removal(const std::vector<Orphan>& orphans) {
  std::string commands;
  std::string young;
  for (const Orphan& orphan : orphans) {
    if (orphan.young) {
      young += fmt::format("  {}\n", orphan.id);
    } else {
      commands += fmt::format("  quarryctl volume delete {}\n", orphan.id);
    }
  }
  std::string text;
  if (!commands.empty()) {
    text +=
        "Nothing was removed. These commands delete them, with their data, once you are sure:\n" + commands;
  }
  if (!young.empty()) {
    text += "These are young: the orchestrator may not have recorded them when the list was made:\n" + young;
  }
  return text;
}

std::string LeftOut(const Orphans& found) {
  std::string text;
  if (found.snapshots_left_out > 0) {
    text +=
        fmt::format("Not compared: {} snapshots, because the list has none (--snapshots compares them).\n",
                    found.snapshots_left_out);
  }
  if (found.inline_left_out > 0) {
    text += fmt::format("Not compared: {} inline volumes of pods.\n", found.inline_left_out);
  }
  if (found.by_hand_left_out > 0) {
    text += fmt::format("Not compared: {} volumes that quarryd mounts itself (quarryctl volume mount).\n",
                        found.by_hand_left_out);
  }
  if (found.unplaced > 0) {
    text += fmt::format("Not compared: {} ids of the list that are not here and do not tell their node.\n",
                        found.unplaced);
  }
  for (const std::string& one : found.unreadable) {
    text += fmt::format("Not compared: {}\n", Clean(one));
  }
  return text;
}

}  // namespace

Orphans FindOrphans(const OrphanQuestion& question) {
  return Comparison(question).Run();
}

std::string DrawOrphans(const Orphans& found) {
  std::string text;
  Bytes sum;
  for (const Orphan& orphan : found.orphans) {
    text += Line(orphan);
    sum = sum + orphan.size;
  }
  text = found.orphans.empty()
             ? fmt::format("no orphan: the list names all {} volumes and snapshots that were compared\n",
                           found.known)
             : fmt::format("{} not in the list, {}; {} in the list:\n", found.orphans.size(), HumanBytes(sum),
                           found.known) +
                   text + Removal(found.orphans);
  for (const std::string& id : found.missing) {
    text += fmt::format("missing: the list has {}, which belongs to this node and is not here\n", id);
  }
  for (const std::string& id : found.deleted) {
    text += fmt::format("deleted: the list has {}, which was deleted and is being erased\n", id);
  }
  return text + LeftOut(found);
}

std::string OrphansJson(const Orphans& found) {
  nlohmann::json page = {{"orphans", nlohmann::json::array()},
                         {"missing", found.missing},
                         {"deleted", found.deleted},
                         {"known", found.known},
                         {"unplaced", found.unplaced},
                         {"snapshots_not_compared", found.snapshots_left_out},
                         {"inline_volumes_not_compared", found.inline_left_out},
                         {"volumes_by_hand_not_compared", found.by_hand_left_out},
                         {"unreadable", found.unreadable}};
  for (const Orphan& orphan : found.orphans) {
    nlohmann::json row = {{"volume_id", orphan.id},
                          {"name", orphan.name},
                          {"pool", orphan.pool},
                          {"type", orphan.type},
                          {"logical_volume", orphan.logical_volume},
                          {"capacity_bytes", orphan.size.value},
                          {"snapshot", orphan.snapshot},
                          {"young", orphan.young}};
    if (orphan.age.has_value()) {
      row["age_seconds"] = orphan.age->count();
    }
    page["orphans"].push_back(std::move(row));
  }
  return JsonLine(page);
}

}  // namespace quarry::ctl
