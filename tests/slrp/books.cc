#include "tests/slrp/books.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/unique_fd.h"
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
  const std::string text = file.dump(1) + '\n';
  const UniqueFd out(open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (!out.valid()) {
    return ErrnoError(path, errno);
  }
  const ssize_t written = write(out.get(), text.data(), text.size());
  if (written >= 0 && static_cast<size_t>(written) < text.size()) {
    return ErrnoError(path, ENOSPC);
  }
  // syncfs is not enough: for ext4 without a journal it flushes the disk's cache before it writes that the
  // file's blocks hold data, and after a power cut the file has zeroes.
  if (written < 0 || fsync(out.get()) != 0) {
    return ErrnoError(path, errno);
  }
  return Ok();
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
