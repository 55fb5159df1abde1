// The runtime API alone, by the name that host code includes it.
#pragma once
#include "cuda_runtime.h"
