#include "lvm/verbs/words.h"

#include <utility>

#include <fmt/format.h>

#include "lvm/names.h"

namespace quarry::lvm {
namespace {

Status CheckName(const char* what, const std::string& name) {
  if (!IsLvmName(name)) {
    return Error(Code::kInvalidArgument, fmt::format("'{}' cannot be the name of a {}", name, what));
  }
  return Ok();
}

}  // namespace

std::string FullName(const std::string& group, const std::string& name) {
  return fmt::format("{}/{}", group, name);
}

std::string FullNames(const std::string& group, const std::vector<std::string>& names) {
  return fmt::format("{}/{}", group, fmt::join(names, fmt::format(" {}/", group)));
}

std::string Several(const std::string& group, const std::vector<std::string>& names) {
  return names.size() == 1 ? FullName(group, names[0]) : fmt::format("{} ({} volumes)", group, names.size());
}

Status CheckGroupName(const std::string& group) {
  return CheckName("volume group", group);
}

Status CheckNames(const std::string& group, const std::string& name) {
  QUARRY_TRY(CheckGroupName(group));
  return CheckName("logical volume", name);
}

void Append(Words& to, Words more) {
  for (std::string& word : more) {
    to.push_back(std::move(word));
  }
}

void AppendSeqno(Words& to, uint64_t seqno) {
  if (seqno != 0) {
    Append(to, {"--select", fmt::format("vg_seqno={}", seqno)});
  }
}

void AppendTags(Words& to, const std::vector<std::string>& add, const std::vector<std::string>& remove) {
  for (const std::string& tag : remove) {
    Append(to, {"--deltag", tag});
  }
  for (const std::string& tag : add) {
    Append(to, {"--addtag", tag});
  }
}

Result<Words> WithFullNames(Words to, const std::string& group, const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    QUARRY_TRY(CheckNames(group, name));
    to.push_back(FullName(group, name));
  }
  return to;
}

std::string Kib(Bytes size) {
  return fmt::format("{}k", size.value / kKiB.value);
}

}  // namespace quarry::lvm
