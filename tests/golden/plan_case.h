// The cases of the golden plans. Each has a file plans/<name>.txt.
#pragma once

#include <string>
#include <vector>

namespace quarry::engine {

class PlanWorld;

struct PlanCase {
  std::string name;
  std::string asked;  // for readers of the file
  std::string state;  // the same; PlanWorld adds the disks and volumes
  // Makes the state, and calls Plans or Does of the world once.
  void (*run)(PlanWorld& world);
};

std::vector<PlanCase> VolumeCases();  // create, grow, delete, erase
std::vector<PlanCase> NodeCases();    // stage, publish, adopt
std::vector<PlanCase> UpkeepCases();  // repair, evacuate, scrub

}  // namespace quarry::engine
