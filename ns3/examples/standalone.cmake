# Builds the examples against an installed ns-3. SPDX-License-Identifier: GPL-2.0-only

include(${CMAKE_CURRENT_SOURCE_DIR}/examples/list.cmake)
foreach(example ${slipring_examples})
  add_executable(${example} examples/${example}.cc)
  target_link_libraries(${example} PRIVATE slipring-net-device)
  set_target_properties(${example} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/examples)
endforeach()
