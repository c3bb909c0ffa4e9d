#include "mount/container_name.h"

#include <algorithm>

#include <fmt/format.h>

namespace quarry::mount {
namespace {

constexpr size_t kContainerId = 64;  // hexadecimal digits: containerd, CRI-O, Docker and Podman
constexpr size_t kShortId = 12;      // as `crictl ps` and `docker ps` print it
constexpr size_t kUuid = 36;

bool IsHex(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
}

// 8-4-4-4-12 hexadecimal digits. systemd's names of slices have '_' for each hyphen.
bool IsUuid(std::string_view text) {
  if (text.size() != kUuid) {
    return false;
  }
  for (size_t i = 0; i < text.size(); ++i) {
    const bool hyphen = i == 8 || i == 13 || i == 18 || i == 23;
    if (hyphen ? text[i] != '-' && text[i] != '_' : !IsHex(text[i])) {
      return false;
    }
  }
  return true;
}

std::string_view WithoutEnd(std::string_view text, std::string_view end) {
  return text.ends_with(end) ? text.substr(0, text.size() - end.size()) : text;
}

// "cri-containerd-<id>.scope", "docker-<id>.scope", "libpod-<id>.scope", "<id>".
std::string_view ContainerId(std::string_view part) {
  part = WithoutEnd(part, ".scope");
  if (part.size() < kContainerId) {
    return "";
  }
  const std::string_view id = part.substr(part.size() - kContainerId);
  const bool separate = part.size() == kContainerId || part[part.size() - kContainerId - 1] == '-';
  return separate && std::ranges::all_of(id, IsHex) ? id : std::string_view();
}

// "pod<uid>", "kubepods-burstable-pod<uid>.slice".
std::string PodUid(std::string_view part) {
  part = WithoutEnd(part, ".slice");
  const size_t pod = part.rfind("pod");
  if (pod == std::string_view::npos || !IsUuid(part.substr(pod + 3))) {
    return "";
  }
  std::string uid(part.substr(pod + 3));
  std::ranges::replace(uid, '_', '-');
  return uid;
}

// "<allocation>.<task>.scope".
std::string NomadTask(std::string_view part) {
  part = WithoutEnd(part, ".scope");
  if (part.size() < kUuid + 2 || part[kUuid] != '.' || !IsUuid(part.substr(0, kUuid))) {
    return "";
  }
  return fmt::format("task {} of Nomad allocation {}", part.substr(kUuid + 1), part.substr(0, kUuid));
}

struct Found {
  std::string container, pod, task, service;
};

void Look(std::string_view part, Found& found) {
  if (const std::string_view id = ContainerId(part); !id.empty()) {
    found.container = id.substr(0, kShortId);
  }
  if (std::string pod = PodUid(part); !pod.empty()) {
    found.pod = std::move(pod);
  }
  if (std::string task = NomadTask(part); !task.empty()) {
    found.task = std::move(task);
  }
  if (part.ends_with(".service")) {
    found.service = part;
  }
}

}  // namespace

std::string ContainerName(std::string_view cgroup) {
  Found found;
  while (!cgroup.empty()) {
    std::string_view line = cgroup.substr(0, cgroup.find('\n'));
    cgroup.remove_prefix(std::min(line.size() + 1, cgroup.size()));
    while (!line.empty()) {
      const std::string_view part = line.substr(0, line.find('/'));
      line.remove_prefix(std::min(part.size() + 1, line.size()));
      Look(part, found);
    }
  }
  if (!found.task.empty()) {
    return found.task;
  }
  if (!found.container.empty()) {
    return found.pod.empty() ? fmt::format("container {}", found.container)
                             : fmt::format("container {} of pod {}", found.container, found.pod);
  }
  return found.service.empty() ? "" : fmt::format("service {}", found.service);
}

}  // namespace quarry::mount
