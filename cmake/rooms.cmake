# quarry_room(NAME SOURCES… [LINK PUBLIC-libs…] [PRIVATE C-libs…]): one static library for one folder below src/.
# C libraries are linked PRIVATE, so that no other room can include their headers by accident.
function(quarry_room name)
  cmake_parse_arguments(ROOM "" "" "SOURCES;LINK;PRIVATE" ${ARGN})
  add_library(quarry_${name} STATIC ${ROOM_SOURCES})
  target_link_libraries(quarry_${name} PUBLIC quarry_options ${ROOM_LINK} PRIVATE ${ROOM_PRIVATE})
endfunction()

# quarry_test(NAME SOURCES… [LINK libs…] [LABELS …]): a gtest binary in <build>/tests/bin, one ctest entry.
function(quarry_test name)
  cmake_parse_arguments(T "" "TIMEOUT" "SOURCES;LINK;LABELS" ${ARGN})
  add_executable(${name} ${T_SOURCES})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests/bin)
  target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR})
  target_link_libraries(${name} PRIVATE quarry_options ${T_LINK} GTest::gmock GTest::gtest GTest::gtest_main)
  add_test(NAME ${name} COMMAND ${name})
  if(NOT T_TIMEOUT)
    set(T_TIMEOUT 120)
  endif()
  set_tests_properties(${name} PROPERTIES LABELS "${T_LABELS}" TIMEOUT ${T_TIMEOUT})
endfunction()
