// Which container, task or service a process belongs to, from the name of its control group.
#pragma once

#include <string>
#include <string_view>

namespace quarry::mount {

// `cgroup`: the content of /proc/<pid>/cgroup (cgroups(7)), of version 1 or 2. Returns "container
// 0123456789ab of pod <uid>", "container 0123456789ab", "task web of Nomad allocation <id>" or "service
// cron.service". Empty: the name of the group says none of these. Pure.
std::string ContainerName(std::string_view cgroup);

}  // namespace quarry::mount
