# Builds the module inside a tree of ns-3. SPDX-License-Identifier: GPL-2.0-only

file(STRINGS "${PROJECT_SOURCE_DIR}/VERSION" slipring_ns3_version LIMIT_COUNT 1)
if(slipring_ns3_version MATCHES "^3\\.([0-9]+)")
  add_compile_definitions(SLIPRING_NS3_MINOR=${CMAKE_MATCH_1})
else()
  add_compile_definitions(SLIPRING_NS3_MINOR=999) # a version under development
endif()

build_lib(
  LIBNAME slipring-net-device
  SOURCE_FILES ${slipring_sources}
  HEADER_FILES ${slipring_headers}
  LIBRARIES_TO_LINK ${libfd-net-device} ${libpoint-to-point} ${libapplications} ${libinternet}
                    ${libtraffic-control} ${libnetwork} ${libcore} slipring::core
  TEST_SOURCES ${slipring_tests})
message(STATUS "slipring-net-device       : ON (${SLIPRING_LIBRARY})")
