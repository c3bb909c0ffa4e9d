# What is never stale and never asks: headers, freshness, zygote, links. Real bytes and real processes, no LVM.
quarry_test(lvm_fresh_test
  SOURCES
    ${CMAKE_SOURCE_DIR}/tests/fuzz/metadata_header_fuzz.cc
    ${CMAKE_SOURCE_DIR}/tests/unit/lvm/disk_images.cc
    ${CMAKE_SOURCE_DIR}/tests/unit/lvm/fresh_lvm_test.cc
    ${CMAKE_SOURCE_DIR}/tests/unit/lvm/fresh_world.cc
    ${CMAKE_SOURCE_DIR}/tests/unit/lvm/header_pv_reader_test.cc
    ${CMAKE_SOURCE_DIR}/tests/unit/lvm/metadata_header_reader_test.cc
    ${CMAKE_SOURCE_DIR}/tests/unit/lvm/metadata_header_test.cc
    ${CMAKE_SOURCE_DIR}/tests/unit/lvm/metadata_text_test.cc
    ${CMAKE_SOURCE_DIR}/tests/unit/lvm/pv_links_test.cc
    ${CMAKE_SOURCE_DIR}/tests/unit/lvm/slow_disk.cc
    ${CMAKE_SOURCE_DIR}/tests/unit/lvm/zygote_test.cc
  LINK quarry_lvm nlohmann_json::nlohmann_json
  LABELS unit)
target_compile_definitions(lvm_fresh_test PRIVATE
  QUARRY_FIXTURES="${CMAKE_SOURCE_DIR}/tests/fixtures" QUARRY_SCRATCH="${CMAKE_BINARY_DIR}/tests/scratch"
  QUARRY_ZYGOTE="$<TARGET_FILE:quarry-lvm>")
add_dependencies(lvm_fresh_test quarry-lvm)
