# Builds the module inside a tree of ns-3. SPDX-License-Identifier: GPL-2.0-only

file(STRINGS "${PROJECT_SOURCE_DIR}/VERSION" slipring_ns3_version LIMIT_COUNT 1)
if(slipring_ns3_version MATCHES "^3\\.([0-9]+)")
  add_compile_definitions(SLIPRING_NS3_MINOR=${CMAKE_MATCH_1})
else()
  add_compile_definitions(SLIPRING_NS3_MINOR=999) # a version under development
endif()

# ns-3 compiles a module's sources without the include directories of the libraries that it links.
get_target_property(slipring_core slipring::core ALIASED_TARGET)
if(NOT slipring_core)
  set(slipring_core slipring::core)
endif()
get_target_property(slipring_core_includes ${slipring_core} INTERFACE_INCLUDE_DIRECTORIES)

build_lib(
  LIBNAME slipring-net-device
  SOURCE_FILES ${slipring_sources}
  HEADER_FILES ${slipring_headers}
  LIBRARIES_TO_LINK ${libfd-net-device} ${libpoint-to-point} ${libapplications} ${libinternet}
                    ${libtraffic-control} ${libnetwork} ${libcore} slipring::core
  TEST_SOURCES ${slipring_tests})

# The targets of build_lib: before ns-3.43, names begin with lib. netmap's header has flexible array
# members, which ns-3's flags -Wpedantic -Werror permit in system headers only.
foreach(target slipring-net-device slipring-net-device-obj slipring-net-device-test)
  foreach(name ${target} lib${target})
    if(TARGET ${name} AND slipring_core_includes)
      target_include_directories(${name} SYSTEM PRIVATE ${slipring_core_includes})
    endif()
  endforeach()
endforeach()
foreach(name slipring-net-device-test libslipring-net-device-test)
  if(TARGET ${name})
    # The tests look at parts that are no interface.
    target_include_directories(${name} PRIVATE model)
  endif()
endforeach()
message(STATUS "slipring-net-device       : ON (${SLIPRING_LIBRARY})")
