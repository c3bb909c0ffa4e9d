// How bad the conditions of disks and volumes are, for monitoring. `quarryctl check` and the command of
// --on-change agree, because both ask here.
#pragma once

#include <string_view>

namespace quarry::engine {

// kCritical: data or a service is out of reach, or will be soon. kWarning: somebody should look, and
// everything works. In the order of the values a larger one is worse.
enum class Severity { kOk, kWarning, kCritical };
std::string_view SeverityName(Severity severity);  // "ok", "warning", "critical"

// `word`: a condition as DiskConditionName writes it. A missing disk is critical, because nothing can be
// created in its group. A disk that is being evacuated is ok. An unknown word is a warning. Pure.
Severity SeverityOfDisk(std::string_view word);
// `word`: VolumeStatus::condition. A degraded volume is a warning: all its data can be used. An unknown word
// is a warning. Pure.
Severity SeverityOfVolume(std::string_view word);

// `mode`: as StoreModeName writes it; `condition`: of the legs, as a volume's; `has_problem`: there is a text
// in StoreStatus::problem. A store that is not made is a warning, because no data are in it. Pure.
Severity SeverityOfStore(std::string_view mode, std::string_view condition, bool has_problem);

}  // namespace quarry::engine
