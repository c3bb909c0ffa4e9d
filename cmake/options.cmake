# Compiler settings shared by every room. Sanitizers come in through the presets.
set(QUARRY_SANITIZE "" CACHE STRING "Value for -fsanitize, e.g. address,undefined")
option(QUARRY_FUZZER "Instrument for clang's libFuzzer, and build tests/fuzz" OFF)

add_library(quarry_options INTERFACE)
target_compile_options(quarry_options INTERFACE -Wall -Wextra -Wpedantic -Werror=switch -Werror=return-type
  -Wno-missing-field-initializers -Wnon-virtual-dtor -Wshadow -fno-omit-frame-pointer)
# src/base/mutex.h. The presets that compile with clang check it; for g++ tests/unit/house/thread_safety.py does.
target_compile_options(quarry_options INTERFACE
  "$<$<COMPILE_LANG_AND_ID:CXX,Clang>:-Wthread-safety;-Werror=thread-safety>")
target_include_directories(quarry_options INTERFACE ${CMAKE_SOURCE_DIR}/src)

# RelWithDebInfo: -g1 keeps backtraces readable at a fraction of the link time and size of -g.
set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O2 -g1")

# What distributions demand of programs that run as root: no writable table of functions once they have started.
add_link_options(-Wl,-z,relro,-z,now)

if(QUARRY_SANITIZE)
  add_compile_options(-fsanitize=${QUARRY_SANITIZE} -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${QUARRY_SANITIZE})
endif()

if(QUARRY_FUZZER)
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()

find_program(QUARRY_CCACHE ccache)
if(QUARRY_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_C_COMPILER_LAUNCHER ${QUARRY_CCACHE})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${QUARRY_CCACHE})
endif()

find_program(QUARRY_MOLD mold)
if(QUARRY_MOLD)
  add_link_options(-fuse-ld=mold)
endif()
