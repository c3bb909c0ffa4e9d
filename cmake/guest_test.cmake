# Tests that run inside a guest of scripts/vmtest, with the programs of this build on its PATH.
include_guard(GLOBAL)

# quarry_guest_program(NAME SOURCES… [LINK libs…]): a gtest binary for guests, in <build>/tests/bin. No ctest entry.
function(quarry_guest_program name)
  cmake_parse_arguments(P "" "" "SOURCES;LINK" ${ARGN})
  add_executable(${name} ${P_SOURCES})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests/bin)
  target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR})
  target_link_libraries(${name} PRIVATE quarry_options ${P_LINK} GTest::gmock GTest::gtest)
endfunction()

# quarry_guest_test(NAME COMMAND program arguments… [RELEASES r…] [DISKS n] [SIZE s] [BUS b] [MEMORY MiB] [CPUS n]
#   [TIMEOUT s] [COST n] [WITH files…] [LONG]): ctest entries vm.NAME.RELEASE, with the label vm, or long for tests that
# take too long for every change. A guest boots and runs the command, whose exit status counts. An entry of its own builds
# the image before. A test that pulls disks uses one processor (CPUS 1): in QEMU 7.2's TCG a processor that writes to a
# device while another one removes it sometimes crashes QEMU. COST orders a parallel run: the highest begin first.
function(quarry_guest_test name)
  cmake_parse_arguments(G "LONG" "DISKS;SIZE;BUS;MEMORY;CPUS;TIMEOUT;COST" "COMMAND;RELEASES;WITH" ${ARGN})
  foreach(default IN ITEMS "RELEASES bookworm" "DISKS 4" "SIZE 1G" "BUS nvme" "MEMORY 1024" "CPUS 2" "TIMEOUT 600" "COST 60")
    separate_arguments(default UNIX_COMMAND "${default}")
    list(POP_FRONT default key)
    if(NOT G_${key})
      set(G_${key} ${default})
    endif()
  endforeach()
  set(label vm)
  if(G_LONG)
    set(label long)
  endif()
  set(extra ${G_WITH})
  list(TRANSFORM extra PREPEND "--with=")
  # The harness times out first, so that it can keep the guest's console log.
  math(EXPR limit "${G_TIMEOUT} + 60")
  foreach(release IN LISTS G_RELEASES)
    add_test(NAME vm.${name}.${release}
      COMMAND ${CMAKE_SOURCE_DIR}/scripts/vmtest/run --build ${CMAKE_BINARY_DIR} --release ${release}
        --disks ${G_DISKS} --size ${G_SIZE} --bus ${G_BUS} --memory ${G_MEMORY} --cpus ${G_CPUS} --timeout ${G_TIMEOUT} ${extra} -- ${G_COMMAND})
    set_tests_properties(vm.${name}.${release} PROPERTIES
      LABELS ${label} TIMEOUT ${limit} COST ${G_COST} FIXTURES_REQUIRED guest.${release})
  endforeach()
endfunction()

foreach(release bookworm trixie)
  add_test(NAME vm.image.${release} COMMAND ${CMAKE_SOURCE_DIR}/scripts/vmtest/image --release ${release})
  set_tests_properties(vm.image.${release} PROPERTIES
    LABELS "vm;long" TIMEOUT 900 COST 1000 FIXTURES_SETUP guest.${release})
endforeach()
