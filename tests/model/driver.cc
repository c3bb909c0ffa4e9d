#include "tests/model/driver.h"

namespace quarry::model {

uint64_t Taken(const Type& type, uint64_t extents) {
  // Mirrors hold all of it, the others a share of it and one leg of raid5 the parity of a share.
  const uint64_t per_leg = extents / type.granule;
  return type.legs * (per_leg + (type.metadata ? 1 : 0));
}

}  // namespace quarry::model
