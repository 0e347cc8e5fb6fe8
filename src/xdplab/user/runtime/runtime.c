/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The C runtime of the user-space engine, one unit for LLVM. Freestanding: besides memcpy, memmove,
 * memset and memcmp it calls clock_gettime alone. It has no state of its own, so that several
 * copies (one for Python, one in each program) work on the same frames and maps.
 */

#include "base.h"
#include "jhash.c"
#include "frames.c"
#include "map_array.c"
#include "map_hash.c"
#include "map_lpm.c"
#include "map_queue.c"
#include "map_slots.c"
#include "ring.c"
#include "maps.c"
#include "redirect.c"
#include "checksum.c"
#include "dynptr.c"
#include "loops.c"
#include "trace.c"
#include "run.c"
#include "clock.c"
#include "veth_heads.c"
#include "veth_parts.c"
#include "veth_model.c"
#include "veth_job.c"
#include "helpers.c"
#include "layout.c"
