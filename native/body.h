/* All kernels for one instruction set: module.c defines ISA and LANES and includes this once for each. */

#include "vector.h"

#include "losses.h"

#define TILE LANES /* TILE x PANEL sums stay in registers */
#define PANEL (3 * LANES)

#define ELEMENT double
#define SUFFIX float64
#define LOAD(p) NAME(load)(p)
#define VALUE(x) (x)
#include "rows.h"
#include "dense.h"
#include "sparse.h"
#include "dense_gram.h"
#undef ELEMENT
#undef SUFFIX
#undef LOAD
#undef VALUE

#define ELEMENT float
#define SUFFIX float32
#define LOAD(p) NAME(load_float32)(p)
#define VALUE(x) (double)(x)
#include "rows.h"
#include "dense.h"
#include "sparse.h"
#include "dense_gram.h"
#undef ELEMENT
#undef SUFFIX
#undef LOAD
#undef VALUE

#define ELEMENT uint8_t
#define SUFFIX uint8
#define LOAD(p) NAME(load_uint8)(p)
#define VALUE(x) byte_value[x]
#include "rows.h"
#include "dense.h"
#include "sparse.h"
#include "dense_gram.h"
#undef ELEMENT
#undef SUFFIX
#undef LOAD
#undef VALUE

#include "stripe.h"

#include "epochs.h"

#include "survival.h"

#include "limits.h"

#include "gram.h"

#include "dense_gram_tiles.h"

#include "lbfgs.h"

static const Kernels NAME(kernels) = {
    ISA_NAME,          LANES,          NAME(stripe), NAME(stochastic), NAME(sample), NAME(ascent),
    NAME(descent),     NAME(norms2),   NAME(lbfgs_size), NAME(lbfgs), NAME(older), NAME(newer),
    NAME(cox_residual), NAME(cox_curvature), NAME(cox_means), NAME(gram), NAME(dense_gram), NAME(fma_loop), NAME(read_loop),
    NAME(gather_loop),
};

#undef vec
#undef ivec
#undef uvec
#undef TILE
#undef PANEL
