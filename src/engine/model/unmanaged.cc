#include "engine/model/unmanaged.h"

#include <fmt/format.h>

#include "lvm/layout.h"

namespace quarry::engine {

bool IsForeign(const lvm::LogicalVolume& lv) {
  // A leg that a killed LVM has not hidden yet belongs to a Quarry volume. The next start handles it.
  if (lv.hidden || !lv.independent || !lvm::OurLvNameIn(lv.name).empty()) {
    return false;
  }
  const auto tags = lvm::ParseTags(lv.tags);
  return tags.has_value() && !tags->has_value();
}

Record ForeignRecord(const std::string& pool, const Catalog& catalog, const lvm::LogicalVolume& lv) {
  lvm::VolumeTags tags;
  tags.id = lvm::ForeignVolumeId(pool, lv.uuid).value_or("");
  tags.size = lv.size;
  return {pool, catalog.group, &lv, std::move(tags)};
}

Volume DescribeForeign(const Record& record) {
  const auto geometry = lvm::GeometryOf(*record.group, *record.lv);
  const std::string type =
      geometry.has_value() ? std::string(lvm::TypeName(geometry->type())) : record.lv->segment_type;
  return Volume{.id = record.tags.id,
                .name = "",
                .size = record.tags.size,
                .pool = record.pool,
                .context = {{"pool", record.pool}, {"type", type}},
                .health = Health{{}, "unmanaged: Quarry does not check its health"}};
}

std::vector<Volume> ForeignVolumes(const std::string& pool, const Catalog& catalog) {
  std::vector<Volume> out;
  for (const lvm::LogicalVolume& lv : catalog.group->lvs) {
    if (IsForeign(lv)) {
      const Record record = ForeignRecord(pool, catalog, lv);
      if (!record.tags.id.empty()) {
        out.push_back(DescribeForeign(record));
      }
    }
  }
  return out;
}

Error NotAdopted(const Record& record) {
  return {
      Code::kPrecondition,
      fmt::format("volume_id: {} is logical volume {}/{}, which Quarry does not manage; "
                  "`quarryctl adopt {}/{}` makes it a volume of Quarry",
                  record.tags.id, record.group->name, record.lv->name, record.group->name, record.lv->name)};
}

}  // namespace quarry::engine
