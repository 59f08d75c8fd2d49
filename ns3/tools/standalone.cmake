# Builds the module and its tests against an installed ns-3. SPDX-License-Identifier: GPL-2.0-only

include(${CMAKE_CURRENT_SOURCE_DIR}/tools/installed-ns3.cmake)
# The directory of the headers is one of the compiler's own, or the first.
include_directories(SYSTEM "${slipring_ns3_includes}")
string(REGEX MATCH "^3\\.([0-9]+)" _ "${slipring_ns3_version}")
set(slipring_ns3_minor ${CMAKE_MATCH_1})

if(slipring_ns3_minor GREATER_EQUAL 46)
  set(CMAKE_CXX_STANDARD 23)
elseif(slipring_ns3_minor GREATER_EQUAL 41)
  set(CMAKE_CXX_STANDARD 20)
else()
  set(CMAKE_CXX_STANDARD 17)
endif()
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
add_compile_definitions(SLIPRING_NS3_MINOR=${slipring_ns3_minor})
add_compile_options(-Wall -Wextra -Wno-unused-parameter)

set(SLIPRING_SANITIZE "" CACHE STRING "sanitizers: address,undefined or thread")
if(SLIPRING_SANITIZE)
  add_compile_options(-fsanitize=${SLIPRING_SANITIZE} -fno-omit-frame-pointer -g)
  add_link_options(-fsanitize=${SLIPRING_SANITIZE})
endif()

# ns-3 finds headers of modules as ns3/NAME.h.
foreach(header ${slipring_headers})
  get_filename_component(name ${header} NAME)
  configure_file(${header} ${CMAKE_CURRENT_BINARY_DIR}/include/ns3/${name} COPYONLY)
endforeach()

add_library(slipring-net-device STATIC ${slipring_sources})
target_include_directories(slipring-net-device PUBLIC ${CMAKE_CURRENT_BINARY_DIR}/include)
target_link_libraries(slipring-net-device PUBLIC ${slipring_ns3} slipring::core)

enable_testing()
add_executable(slipring-net-device-test test/main.cc ${slipring_tests})
# The tests look at parts that are no interface.
target_include_directories(slipring-net-device-test PRIVATE model)
target_link_libraries(slipring-net-device-test PRIVATE slipring-net-device)
foreach(suite slipring-net-device slipring-net-device-switch slipring-net-device-defects slipring-net-device-limits slipring-net-device-overrun slipring-net-device-realtime slipring-frame slipring-link)
  add_test(NAME ${suite} COMMAND slipring-net-device-test --suite=${suite} --verbose)
endforeach()

add_test(NAME slipring-failure
         COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/test/failure.sh $<TARGET_FILE:slipring-net-device-test>)
if(SLIPRING_SANITIZE STREQUAL "thread")
  add_test(NAME slipring-race
           COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/test/race.sh $<TARGET_FILE:slipring-net-device-test>)
endif()
add_test(NAME slipring-figures COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/test/figures.sh)
add_test(NAME slipring-choice-of-ns3
         COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/test/choice-of-ns3.sh ${CMAKE_COMMAND})

add_test(NAME slipring-net-device-veth
         COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/test/veth.sh $<TARGET_FILE:slipring-net-device-test>)

if(EXISTS ${CMAKE_CURRENT_SOURCE_DIR}/examples/standalone.cmake)
  include(${CMAKE_CURRENT_SOURCE_DIR}/examples/standalone.cmake)
endif()

message(STATUS "slipring-net-device       : ON (ns-3 ${slipring_ns3_version}, ${SLIPRING_LIBRARY})")
