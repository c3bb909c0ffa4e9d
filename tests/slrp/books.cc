#include "tests/slrp/books.h"

#include <fstream>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "tests/slrp/deployment.h"

namespace quarry::slrp {
namespace {

using nlohmann::json;

json ToJson(const Disk& disk) {
  return {{"name", disk.name},        {"profile", disk.profile},        {"id", disk.volume.id},
          {"size", disk.volume.size}, {"context", disk.volume.context}, {"published", disk.published}};
}

Disk FromJson(const json& value) {
  Disk disk;
  disk.name = value.at("name");
  disk.profile = value.at("profile");
  disk.volume.id = value.at("id");
  disk.volume.size = value.at("size");
  disk.volume.context = value.at("context").get<Strings>();
  disk.published = value.at("published");
  return disk;
}

}  // namespace

Status Books::Save(const std::string& path) const {
  json file = {{"disks", json::array()}, {"pending", json::array()}, {"destroyed", destroyed}};
  for (const auto& [id, disk] : disks) {
    file["disks"].push_back(ToJson(disk));
  }
  for (const auto& [name, disk] : pending) {
    file["pending"].push_back(ToJson(disk));
  }
  std::ofstream out(path, std::ios::trunc);
  out << file.dump(1) << '\n';
  out.close();
  return out ? Ok() : Status(ErrnoError(path, errno));
}

Result<Books> Books::Load(const std::string& path) {
  QUARRY_ASSIGN(const std::string text, ReadFile(path));
  const json file = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!file.is_object()) {
    return Error(Code::kCorrupt,
                 fmt::format("{}: is no book of disks: {} bytes, '{}'", path, text.size(), text));
  }
  Books books;
  for (const json& value : file.at("disks")) {
    Disk disk = FromJson(value);
    books.disks.emplace(disk.volume.id, disk);
  }
  for (const json& value : file.at("pending")) {
    Disk disk = FromJson(value);
    books.pending.emplace(disk.name, disk);
  }
  books.destroyed = file.at("destroyed").get<std::set<std::string>>();
  return books;
}

}  // namespace quarry::slrp
