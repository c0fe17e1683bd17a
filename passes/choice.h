/* choice.h - the table of candidates while it is made: sums of products as the kernels see them,
 * one candidate a way to run a statement, and what the schedule says about them.
 *
 * A statement has a choice when it is `epilogue(sum[k] product)`; everything else runs as generated
 * loops. Candidates name statements by their target, so that the table survives printing and
 * parsing. */
#ifndef SPC_PASSES_CHOICE_H
#define SPC_PASSES_CHOICE_H

#include "passes/expr.h"
#include "passes/cost.h"

/* ---- a sum of products ----------------------------------------------------------------------- */
typedef struct pass_sum {
  ir_stmt *stmt;
  ir_expr *reduce;
  IR_VEC(ir_expr *) factors; /* of the summand, casts stripped */
  /* when it is one product of two dense matrices (batched): what composed kernels can run */
  bool matrices;
  const char *not_matrices;    /* why it is not */
  ir_expr *a, *b;              /* a holds the result's rows */
  ir_index *k;                 /* the only summed index, NULL when there are several */
  double batch, m, n, k_size;  /* assumed sizes; set when matrices, else m = all free, n = 1 */
  ir_index *m_index, *n_index; /* of several that are one (ir/roles.h) the last; on a CPU NULL when there are several */
  int batches;                 /* indices of batch */
  bool flattened;              /* several indices are one, or one operand lacks an index of batch */
  ir_precision precision;      /* what the schedule allows */
  bool any_rows;               /* batch invariance: nothing may depend on how many rows there are */
  /* or a product whose rows come in ragged groups, each with a matrix of its own: then not matrices,
   * but a, b, k, m_index (ragged) and n_index are set */
  bool grouped;
  ir_index *segment;
  /* or a product of a, 16-bit floats, with b, integers of 8 bits: then not matrices, but all of the above as if it were */
  bool widened;
  int64_t group; /* k's that share a scale; 0: there are none */
  /* or a product of which one factor is stored in blocks (ir/bsr.h), and the other dense: then not matrices, but all of the above as if it were */
  const ir_expr *bsr; /* a or b; NULL: none is */
  /* or a product of dense matrices of which the stored blocks of an input say where it is computed, and its result has the same ones: then not
   * matrices, but all of the above as if it were */
  const ir_tensor *sdd; /* that input; NULL: it is none */
} pass_sum;
bool pass_sum_of(pass_context *context, ir_stmt *stmt, pass_sum *out);
/* Why an operand is still read by the quotient of an index (divide.c); NULL: it is not. */
const char *pass_quotient_why(pass_context *context, const ir_expr *access);
double pass_indices_size(pass_context *context, const pass_indices *indices); /* the product of their sizes, as assumed */
pass_product pass_sum_product(const pass_sum *sum, const ir_expr *listed);

/* A factor whose zeros are known at run time only, and how its index list would lie. */
typedef struct pass_listed {
  ir_expr *access;
  ir_index *axis, *strip_index;
  int axis_dim, strip_dim;
  const char *cannot; /* why no list can be made; NULL when one can */
} pass_listed;
/* Dense bytes, and zeros that are hinted, sampled or asked about by a `compact` directive. */
bool pass_factor_dynamic(const ir_kernel *kernel, const ir_expr *factor);
pass_listed pass_listed_of(pass_context *context, const pass_sum *sum, ir_expr *factor);
/* In how many ways a statement reads a tensor with the axis of a list, and the index of its strips (NULL: none), each along a
 * dimension; and the first one's dimensions, -1 without any. */
int pass_list_dims(const ir_stmt *stmt, const ir_tensor *tensor, const ir_index *axis, const ir_index *strip, int *axis_dim,
                   int *strip_dim);
/* Of several ways a list could be of any: why there is none; NULL: there is one way. */
const char *pass_list_is_ambiguous(pass_context *context, const ir_stmt *stmt, const pass_listed *listed);

/* The matrix whose zeros say which columns of a statement's result are not needed, and how a list
 * of the others would lie: along the index that all readers of the result sum over (columns.c).
 * False where no condition is such a matrix, or a reader needs the whole result. */
bool pass_columns_of(pass_context *context, const ir_kernel *kernel, const pass_sum *sum,
                     pass_listed *out);
/* The operand whose listed columns are not contiguous, which makes it impossible; NULL: none. */
const ir_expr *pass_columns_across(const pass_sum *sum, const pass_listed *listed);
/* Why that operand's columns cannot be gathered; NULL: they can. */
const char *pass_columns_misfit(pass_context *context, const pass_sum *sum, const pass_listed *listed);
/* The same for a result of any use, whose list runs along its contiguous index: what is not listed
 * is the statement's fill. */
bool pass_blocks_of(pass_context *context, const ir_kernel *kernel, const pass_sum *sum,
                    pass_listed *out);
/* The matrix that a tensor's condition asks at its own place, where the tensor has hardly a zero more: its lists do for the tensor.
 * NULL: none. */
ir_tensor *pass_bound_of(pass_context *context, const ir_kernel *kernel, const ir_tensor *tensor);
/* Whose zeros the candidate's list is of: its operand's, or the bound's of that. */
ir_tensor *pass_listed_tensor(pass_context *context, const ir_kernel *kernel, const ir_candidate *candidate);
bool pass_is_sampled(const ir_candidate *candidate); /* it computes the columns of a list */
bool pass_goes_in_place(const pass_context *context, const ir_candidate *candidate); /* such, and its epilogue stores them where they belong: its hint says that what is listed holds in all rows */
bool pass_is_spread(const ir_candidate *candidate); /* it computes listed columns side by side, then spreads them over a whole result */
bool pass_is_packing(const ir_candidate *candidate); /* its lists bring what they name of each row side by side */
bool pass_is_paired(const ir_candidate *candidate);  /* its lists are of two strips, told apart */
/* The reader walks the list that the writer writes its result over. */
bool pass_reads_packed(const ir_candidate *reader, const ir_candidate *writer);
/* The chosen candidate that does so for a reader; NULL: its operand is whole. */
const ir_candidate *pass_writer_of(const ir_kernel *kernel, const ir_candidate *reader);
bool pass_stmt_reads(const ir_stmt *stmt, const ir_tensor *tensor);

/* ---- candidates ------------------------------------------------------------------------------ */
typedef struct pass_way {
  ir_candidate *candidate;
  ir_tensor *turned;  /* the intermediate whose layout it needs; NULL: any layout will do */
  ir_tensor *beside;  /* another one whose last dimension must be the strips' too; NULL: none */
  bool beside_last;   /* as strip_last, of that one */
  bool strip_last;    /* it needs the strip's dimension contiguous (dense_t); else row-major */
  double weight;      /* microseconds that ways are compared by */
  const char *struck; /* a directive excludes it, and why; NULL: none does */
} pass_way;

typedef struct pass_ways {
  ir_stmt *stmt;
  pass_sum sum;
  bool is_sum;
  double before; /* what statements before it take, which attention computes on its way; 0: none */
  IR_VEC(pass_way) list;
} pass_ways; /* of one statement */

/* A product with one operand whose entries are walked row by row, over strips of one index of the
 * result: the other operand is packed, k outside and the strip's columns consecutive (strips.c,
 * lower_strips.c). */
typedef struct pass_strips {
  ir_index *columns, *rows;
  ir_expr *stored, *packed;
  int column_dim; /* the packed operand's dimension that is cut into strips */
} pass_strips;
/* listed: the dense operand of whose rows lists are walked; NULL: an operand is stored sparse. */
bool pass_strips_fit(const pass_sum *sum, ir_index *columns, const ir_tensor *listed,
                     pass_strips *out);
/* Rows of a block, when there are so many strips. */
ir_expr *pass_strips_block(pass_context *context, const ir_index *rows, ir_expr *strips);
/* density: of the entries that are walked. */
double pass_strips_cost(pass_context *context, const pass_sum *sum, const pass_strips *strips,
                        int64_t width, double density);
/* Loops over the entries as they lie, for comparison. */
double pass_straight_cost(pass_context *context, const pass_sum *sum, const pass_strips *strips,
                          double density);
/* A candidate that walks the stored operand, or writes it out, at this density of it. */
double pass_stored_cost(pass_context *context, const pass_sum *sum, const ir_candidate *candidate, double density);
double pass_stored_density(pass_context *context, const pass_strips *strips);
/* The operand that is stored sparse written out, then the product of two dense matrices. */
double pass_expanded_cost(pass_context *context, const pass_sum *sum, const pass_strips *strips, double density);

/* ---- how much is stored (guard_stored.c) ------------------------------------------------------ */
/* A product of two matrices of which one is stored sparse, in whatever order. */
bool pass_stored_fit(const pass_sum *sum, pass_strips *out);
/* The operand of a product that can be walked, or written out; NULL: it has none. */
ir_expr *pass_stored_operand(const pass_sum *sum);
/* Beside a chosen candidate that walks it the one that writes it out, and the other way round; NULL: none. */
ir_candidate *pass_stored_branch(const ir_kernel *kernel, const ir_candidate *chosen);
/* Elements up to which the branch beside a chosen candidate writes it out; 0: however many. */
int64_t pass_stored_most(const pass_context *context, const ir_tensor *stored, const ir_candidate *chosen);
void pass_guard_stored(pass_context *context, ir_kernel *kernel, ir_candidate *chosen);

const ir_target *pass_target_of(const pass_context *context);
void pass_context_prepare(pass_context *context); /* the built-in profile, where none was given */
ir_candidate *pass_candidate_new(pass_context *context, pass_ways *ways, const char *row);
void pass_candidate_tile(pass_context *context, ir_candidate *candidate, ir_index *index,
                         int64_t size);
/* What is lost when the guard says dense; dense: that branch, NULL: unknown. */
double pass_candidate_look(pass_context *context, const ir_candidate *candidate, const ir_candidate *dense);
/* Microseconds more of the sparse branch where dense is a launch of its own behind a kernel that could be both. */
double pass_candidate_behind(pass_context *context, const ir_candidate *candidate, const ir_candidate *dense);
/* An epilogue leaves bits for its list: nobody reads the operand's values for it. */
bool pass_list_is_fused(pass_context *context, const ir_candidate *candidate);
/* The dense branch stands in front of the candidate's list, too (stage_front.c), where a sample can be taken. */
bool pass_has_front(pass_context *context, const ir_candidate *candidate, const ir_candidate *dense);
/* Of its lists and guard, what the guard takes. */
double pass_candidate_guard(pass_context *context, const ir_candidate *candidate);
/* Of a candidate that spreads columns what the launch behind it takes. */
double pass_candidate_spread(pass_context *context, const ir_candidate *candidate, double cover);
/* Predicted microseconds at this cover; *index gets the part that builds lists and guards. */
double pass_candidate_cost(pass_context *context, const pass_sum *sum,
                           const ir_candidate *candidate, double cover, double *index);
/* The same where it is known how much two strips cover together, which else is taken as that of zeros that do not know of each other. */
double pass_candidate_time(pass_context *context, const pass_sum *sum, const ir_candidate *candidate, pass_covers covers, double *index);
/* The time that a row which looks at zeros itself adds to the launch before it, where its blocks are that launch's. */
double pass_candidate_joined(pass_context *context, const pass_sum *sum, const ir_candidate *candidate);
/* Rows in memory are multiples of so many bytes, or may be at run time. */
bool pass_rows_aligned(const pass_sum *sum, int align);
const char *pass_alignment_why(const pass_context *context, const ir_kernel_row *row); /* where they are not */
/* The index that the result's contiguous dimension is the bare subscript of is `index`: its elements lie side by side. */
bool pass_result_ends_in(const ir_stmt *stmt, const ir_index *index);
/* The same of the result, and of the operand beside `stored`. */
bool pass_beside_aligned(const pass_sum *sum, const ir_expr *stored, int align);
/* The same of the operands alone, whatever the result. */
bool pass_operands_aligned(const pass_sum *sum, int align);
/* Memory lines that as many bytes of the operand's rows lie in: 2 where rows are known to be no multiples of a line. */
int pass_lines_a_row(const ir_expr *access);
double pass_library_cost(pass_context *context, const pass_sum *sum);
/* Predicted microseconds of a dense row; turned: its m runs along the product's n. */
double pass_dense_cost(pass_context *context, const pass_sum *sum, const ir_kernel_row *row,
                       bool turned);
/* The least of the dense rows that take the operands as they lie (GPU); infinite: none does. */
double pass_dense_best(pass_context *context, const pass_sum *sum);
/* The same among the rows that move boxes; INFINITY: none can. */
double pass_boxes_best(pass_context *context, const pass_sum *sum);
/* The same, or the library's where a GPU is known. */
double pass_matrix_cost(pass_context *context, const pass_sum *sum);
/* Generated loops: their iterations, and what they touch. */
double pass_loops_cost(pass_context *context, const ir_stmt *stmt);
/* Whether stored entries say which sums there are, and teams of threads share each, on a GPU (walk.c). */
/* The least density, as hinted or assumed, of the stored sparse tensors that an expression reads; 1: it reads none. */
double pass_stored_share(pass_context *context, const ir_expr *e);
bool pass_teams_take_entries(pass_context *context, const pass_sum *sum);
/* A product that walks the entries of one stored operand, on a GPU. */
double pass_walk_cost(pass_context *context, const pass_sum *sum);
/* Its dense operand, where the walk reads it across its rows and a turned copy pays; else NULL. */
const ir_expr *pass_turns(pass_context *context, const pass_sum *sum);
double pass_turn_cost(pass_context *context, const ir_tensor *tensor);
/* Its cover at this density, 0: zeros are independent, to 1: rows of a strip are alike. */
double pass_candidate_cover(const pass_context *context, const ir_candidate *candidate,
                            const pass_zeros *zeros, double density, double correlation);
pass_covers pass_candidate_covers(const pass_context *context, const ir_candidate *candidate,
                                  const pass_zeros *zeros, double density, double correlation);
/* Blocks of zeros as the candidate's strips meet them: rows along the strip, columns along the
 * listed axis. */
pass_zeros pass_zeros_across(const ir_candidate *candidate, const pass_zeros *zeros);
void pass_candidate_estimate(pass_context *context, const pass_sum *sum, ir_candidate *candidate);
/* Layout: may pass microtile still turn this intermediate round?  Which index is contiguous? */
bool pass_layout_is_free(const ir_kernel *kernel, const ir_tensor *tensor);
ir_index *pass_contiguous_index(const ir_expr *access, bool turned);

/* Rows of the kernel table: can it run such operands there, as precisely as is asked? */
bool pass_row_fits(const ir_kernel_row *row, const ir_target *target, const pass_sum *sum);
void pass_ways_cpu(pass_context *context, ir_kernel *kernel, pass_ways *ways);
/* Products of few rows whose kernels look at zeros themselves (ways_skip.c). */
bool pass_rows_are_few(pass_context *context, const pass_sum *sum);
/* Who reads the result looks at its zeros itself: nobody asks for their bits. */
bool pass_readers_look(pass_context *context, const pass_sum *sum);
void pass_ways_skip(pass_context *context, ir_kernel *kernel, pass_ways *ways);
/* The rows of the result are several tiles of the candidate's row: each of them reads the other operand again. */
bool pass_is_several_tiles(const pass_sum *sum, const ir_candidate *candidate);
/* How much longer than dense, in microseconds as it is, a product may take where nothing is zero: 3 % or 3 us, whichever is more (choose.c). */
double pass_cheap(double dense);
/* Its kernel looks at zeros itself. */
bool pass_looks(const ir_candidate *candidate);
/* It looks at the values of several rows at a time, and takes a sample of them first, unless it heeds who asked for them. */
bool pass_samples_itself(const ir_candidate *candidate);
/* Of up to 8 rows: where nothing is zero it takes longer than dense, which takes so many microseconds, by more than the floor allows (guard.c). */
bool pass_one_tile_needs_guard(const pass_context *context, const ir_candidate *looks, double dense);
/* A chosen candidate that skips the k's of what `asks`, which skips columns, computes: it takes the same branch. */
bool pass_heeds(const ir_candidate *candidate, const ir_candidate *asks);
/* Products whose rows come in ragged groups (ways_groups.c). */
void pass_ways_groups(pass_context *context, pass_ways *ways);
/* Products with a factor of 8-bit integers, which kernels widen themselves (ways_widen.c). */
void pass_ways_widen(pass_context *context, pass_ways *ways);
/* Attention in one kernel, of all statements at once (ways_attend.c). */
void pass_ways_attend(pass_context *context, const ir_kernel *kernel, pass_ways *all, int count);
bool pass_is_attention(const ir_candidate *candidate);
/* Its weight is what it takes more than stages of their own would before it; sets `before`. */
void pass_attend_weigh(pass_context *context, const ir_kernel *kernel, pass_ways *all, int count);
const char *pass_attend_why(pass_context *context, const pass_ways *ways, const ir_candidate *chosen);
/* Says behind it what a launch before the kernel finds out, if there is one. */
void pass_attend_say_noted(pass_context *context, const ir_kernel *kernel, const pass_ways *ways, ir_candidate *chosen);
/* Predicted microseconds of such a product (row NULL: by generated loops), and of the best of the kernels; infinite: none takes it. */
double pass_widen_cost(pass_context *context, const pass_sum *sum, const ir_kernel_row *row);
double pass_widen_best(pass_context *context, const pass_sum *sum);
/* Products of which a factor is stored in blocks, multiplied as it lies (ways_bsr.c): predicted microseconds, and of the best of the
 * kernels; infinite: none takes it. */
void pass_ways_bsr(pass_context *context, pass_ways *ways);
double pass_bsr_cost(pass_context *context, const pass_sum *sum, const ir_kernel_row *row);
double pass_bsr_best(pass_context *context, const pass_sum *sum);
bool pass_bsr_has_tile(const pass_sum *sum, const ir_kernel_row *row, const ir_directive *tile); /* as a schedule names it */
/* Why no kernel takes such a product; NULL: one does, or it is none. */
const char *pass_bsr_why_not(pass_context *context, const pass_sum *sum);
/* Products of dense matrices into stored blocks (ways_sdd.c): predicted microseconds. */
void pass_ways_sdd(pass_context *context, pass_ways *ways);
bool pass_sdd_is_computed(pass_context *context, const pass_sum *sum); /* some row can */
double pass_sdd_cost(pass_context *context, const pass_sum *sum, const ir_kernel_row *row);
/* Predicted microseconds of such a product, groups being as long as one another. */
double pass_groups_cost(pass_context *context, const pass_sum *sum, const ir_kernel_row *row);
/* Says what would make a product of two matrices of one that is none (ways_missed.c). */
void pass_ways_missed(pass_context *context, const pass_ways *ways);
/* Rows that are sent where a vector says, and combined there in order (ways_scatter.c). */
void pass_ways_scatter(pass_context *context, pass_ways *ways);
double pass_scatter_cost(pass_context *context, const ir_stmt *stmt, const ir_kernel_row *row);
/* A product by the vendor's library, after the kernels that it is compared with. */
void pass_ways_library(pass_context *context, ir_kernel *kernel, pass_ways *ways);
bool pass_is_library(const ir_candidate *candidate);
/* Lists of blocks as wide as a box, over rows as they lie or regrouped: k tiles of a factor, and runs of the result's columns. */
void pass_ways_k_blocks(pass_context *context, pass_ways *ways, const pass_listed *operand);
/* Lists of the rows of a factor that hold anything (ways_rows.c). */
void pass_ways_rows(pass_context *context, const ir_kernel *kernel, pass_ways *ways, const pass_listed *operand);
bool pass_is_live(const ir_candidate *candidate); /* it walks such a list */
/* Lists of the rows that hold anything in each block of k (ways_krows.c). */
void pass_ways_krows(pass_context *context, const ir_kernel *kernel, pass_ways *ways, const pass_listed *operand);
bool pass_is_krows(const ir_candidate *candidate);
/* Beside the candidate of a statement that is chosen one by another list of the same operand, where nobody has told how its zeros come (instead.c). */
void pass_ways_instead(pass_context *context, const ir_kernel *kernel, const pass_ways *ways, const ir_candidate *chosen, const ir_candidate *dense);
bool pass_is_untold(const ir_tensor *operand); /* an input that is looked at in every run, and of which nothing is known but that it has zeros */
bool pass_reads_alone(const ir_kernel *kernel, const ir_candidate *candidate); /* no other statement reads its operand: the list is for nobody else */
/* Rows move one by one: why they cannot, each being contiguous neither in the factor nor in the result; NULL: they can. */
const char *pass_rows_misfit(const pass_ways *ways, const pass_listed *operand);
/* What ways that pack rows of an operand have in common: tiles of the row along the listed axis and beside it, and what they are refused for. */
void pass_rows_candidate(pass_context *context, pass_ways *ways, const ir_kernel_row *row, const pass_listed *operand, ir_candidate *candidate);
/* A candidate over lists of micro-tiles of the row's m and this many along the axis; `across`: the index that the row's n runs along. */
ir_candidate *pass_candidate_over(pass_context *context, pass_ways *ways, const ir_kernel_row *row, const pass_listed *listed, ir_index *across, int64_t gran);
/* The last way writes its result row by row: a layout that is still free is asked for so. */
void pass_way_in_rows(const ir_kernel *kernel, pass_ways *ways);
/* Listed columns of a whole result (ways_spread.c). */
void pass_ways_spread(pass_context *context, ir_kernel *kernel, pass_ways *ways);
void pass_ways_n_blocks(pass_context *context, ir_kernel *kernel, pass_ways *ways);
void pass_ways_cuda(pass_context *context, ir_kernel *kernel, pass_ways *ways);
static inline bool pass_is_quick(const pass_context *context) {
  return context->options && context->options->quick;
}
/* What a way weighs where code is wanted soon: its compile is divided among a few runs (quick.c). */
double pass_quick_weight(const pass_context *context, const ir_candidate *candidate);
const char *pass_quick_why(const pass_context *context, const ir_candidate *candidate);
/* Picks one way a statement, jointly over the layouts of intermediates; fills verdicts. */
void pass_ways_choose(pass_context *context, ir_kernel *kernel, pass_ways *all, int count);

/* ---- the schedule ---------------------------------------------------------------------------- */
/* Restricts the ways to what the directives ask for; errors E05xx where nothing fits. */
spc_status pass_schedule_restrict(pass_context *context, ir_kernel *kernel, pass_ways *all,
                                  int count);
/* The `compact` directive for this operand, NULL when there is none; its micro-tile by dimension.
 */
const ir_directive *pass_schedule_compact(const ir_kernel *kernel, const ir_tensor *tensor);
bool pass_compact_shape(const ir_directive *directive, const ir_tensor *tensor, int *axis_dim,
                        int64_t *strip, int64_t *gran);
/* How the products of a statement, and of temporaries that were split off it, are formed. */
ir_precision pass_schedule_precision(const ir_program *program, const ir_tensor *target);
/* What shapes the computation of `from` speaks of `to`, which is computed in its place. */
void pass_schedule_rename(ir_kernel *kernel, const char *from, const char *to);
ir_directive *pass_schedule_find(const ir_kernel *kernel, ir_directive_kind kind,
                                 const char *tensor);

/* ---- results that stay side by side (aside.c) ------------------------------------------------------- */
/* The chosen candidate's listed columns are read by elementwise statements of the same places alone: it spreads nothing. */
bool pass_stays_aside(pass_context *context, const ir_kernel *kernel, const ir_candidate *columns);
/* Those that a statement reads: how many, IR_MOST_BESIDE at most. */
int pass_aside_of(pass_context *context, const ir_kernel *kernel, const ir_stmt *reader, const ir_candidate **out);
/* Takes kernels for what reads the results of such statements that read their columns again. */
void pass_aside_settle(pass_context *context, ir_kernel *kernel);
/* Of a chosen candidate that does so what has listed these columns; NULL: it does not. */
const ir_candidate *pass_aside_writer(pass_context *context, const ir_kernel *kernel, const ir_candidate *reader);

#endif
