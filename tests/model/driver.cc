#include "tests/model/driver.h"

namespace quarry::model {

uint64_t Taken(const Type& type, uint64_t extents) {
  // Each mirror leg holds all data; each other leg holds a share, and one leg of raid5 holds the parity.
  const uint64_t per_leg = extents / type.granule;
  return type.legs * (per_leg + (type.metadata ? 1 : 0));
}

}  // namespace quarry::model
