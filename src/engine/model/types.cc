#include "engine/model/types.h"

namespace quarry::engine {

std::string_view DiskConditionName(DiskCondition condition) {
  switch (condition) {
    case DiskCondition::kOk:
      return "ok";
    case DiskCondition::kMissing:
      return "missing";
    case DiskCondition::kReturned:
      return "returned";
    case DiskCondition::kToBeVacated:
      return "leaving";
    case DiskCondition::kFailing:
      return "failing";
    case DiskCondition::kWorn:
      return "worn";
  }
  return "";
}

}  // namespace quarry::engine
