"""The part of `CMakeLists.txt` that builds the module for OpenVX."""

from __future__ import annotations

from string import Template
from typing import Final

from nnefc.emit.header import Interface

_CMAKE: Final = Template(
    """
# The module for vxLoadKernels.  It takes the functions of OpenVX from the program that loads it,
# or from OPENVX_LIBRARY if that is set.
find_path(OPENVX_INCLUDE_DIR VX/vx.h)
if(NOT OPENVX_INCLUDE_DIR)
  message(FATAL_ERROR "VX/vx.h is missing: -D OPENVX_INCLUDE_DIR=FOLDER")
endif()
set(${macro}_OPENVX_THREADS 0 CACHE STRING "Threads of a node; 0: one for each processor")
add_library(${name}_openvx MODULE ${name}_openvx.c)
target_include_directories(${name}_openvx PRIVATE $${OPENVX_INCLUDE_DIR})
target_compile_definitions(
  ${name}_openvx PRIVATE ${macro}_OPENVX_THREADS=$${${macro}_OPENVX_THREADS})
target_link_libraries(
  ${name}_openvx PRIVATE $name $${OPENVX_LIBRARY} $${CMAKE_DL_LIBS} -Wl,-Bsymbolic)
"""
)

_CMAKE_WEIGHTS: Final = Template(
    """add_custom_command(TARGET ${name}_openvx POST_BUILD
  COMMAND $${CMAKE_COMMAND} -E copy_if_different
  $${CMAKE_CURRENT_SOURCE_DIR}/$name.weights $$<TARGET_FILE_DIR:${name}_openvx>)
"""
)


def openvx_cmake(interface: Interface, has_weights: bool) -> str:
    """The part of `CMakeLists.txt` that builds the module."""
    names = {"name": interface.name, "macro": interface.macro}
    weights = _CMAKE_WEIGHTS.substitute(names) if has_weights else ""
    return _CMAKE.substitute(names) + weights
