# Install rules: tools, runtime and the CMake package. Filled as the rooms gain targets.
