# Builds the examples against an installed ns-3. SPDX-License-Identifier: GPL-2.0-only

foreach(example fd-netmap-emu-ping fd-netmap-emu-onoff fd-netmap-emu-send fd-netmap-emu-tc slipring-link-replay slipring-link-udp slipring-federation)
  add_executable(${example} examples/${example}.cc)
  target_link_libraries(${example} PRIVATE slipring-net-device)
  set_target_properties(${example} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/examples)
endforeach()
