/* cpu_link.c - an object file of our own into executable memory.
 *
 * The objects are what LLVM's x86-64 back end makes of our modules: position independent, small
 * code model, no data that is written.  So all there is to do is to lay the sections out, resolve
 * what the code calls, and apply a dozen kinds of relocation (System V ABI, AMD64 supplement, 4.4).
 * LLVM is not needed for it, which is why code from the cache runs without LLVM being started.
 *
 *     executable   sections of code, then a stub of 8 bytes a symbol: jmp *slot(%rip)
 *     read-only    constants, jump tables, then a slot of 8 bytes a symbol: its address
 *
 * Pages are writable while this is done and never again.  Objects may come from a file: every
 * offset is checked against the size, and what is not understood is an error, not a guess. */
#define _GNU_SOURCE /* RTLD_DEFAULT, MAP_ANONYMOUS */
#include <dlfcn.h>
#include <elf.h>
#include <math.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "codegen/cpu.h"

struct cg_cpu_code {
  uint8_t *memory;
  size_t bytes;
  int count;
  struct entry {
    char *name;
    void *address;
  } entries[]; /* the functions that can be called from outside */
};

/* ---- what emitted code may call -------------------------------------------------------------- */
typedef void any(void);
typedef struct callee {
  const char *name;
  any *address;
} callee;

/* Before the process's own symbols, so that it does not matter how libm was loaded. */
static const callee callees[] = {
    {"exp", (any *)exp},         {"log", (any *)log},       {"tanh", (any *)tanh},
    {"erfc", (any *)erfc},       {"pow", (any *)pow},       {"powf", (any *)powf},
    {"fmod", (any *)fmod},       {"fmodf", (any *)fmodf},   {"floor", (any *)floor},
    {"floorf", (any *)floorf},   {"memcpy", (any *)memcpy}, {"memset", (any *)memset},
    {"memmove", (any *)memmove},
};

bool cg_cpu_link_takes(const char *entry) {
  for (int i = 0; i < IR_COUNT(callees); i++)
    if (!strcmp(callees[i].name, entry)) return false;
  return true;
}

static uint64_t address_of(const char *name) {
  for (int i = 0; i < IR_COUNT(callees); i++)
    if (!strcmp(callees[i].name, name)) return (uint64_t)(uintptr_t)callees[i].address;
  /* what the back end may call on its own for a CPU without some instruction */
  return (uint64_t)(uintptr_t)dlsym(RTLD_DEFAULT, name);
}

/* ---- the file -------------------------------------------------------------------------------- */
typedef struct placed {
  Elf64_Shdr header;
  uint64_t offset; /* in memory; only of sections that are loaded */
  bool loaded;
} placed;

typedef struct linking {
  const uint8_t *file;
  size_t bytes;
  char *said; /* the fault, for when nothing is held any more */
  placed *sections;
  int section_count;
  const uint8_t *symbols; /* of Elf64_Sym, not aligned */
  size_t symbol_count;
  const char *names; /* ends with a NUL */
  size_t name_bytes;
  uint64_t stubs, slots; /* offsets in memory */
  uint64_t writable;     /* offset of the first page that is not executable */
  cg_cpu_code *code;
} linking;

enum { FAULT_BYTES = 300 };
static spc_status fault(const linking *l, const char *format, ...) IR_PRINTF(2, 3);
static spc_status fault(const linking *l, const char *format, ...) {
  va_list args;
  va_start(args, format);
  vsnprintf(l->said, FAULT_BYTES, format, args);
  va_end(args);
  return SPC_INTERNAL;
}

static bool inside(const linking *l, uint64_t offset, uint64_t bytes) {
  return offset <= l->bytes && bytes <= l->bytes - offset;
}

static spc_status read_sections(linking *l) {
  Elf64_Ehdr h;
  if (l->bytes < sizeof h) return fault(l, "it ends in its header");
  memcpy(&h, l->file, sizeof h);
  if (memcmp(h.e_ident, ELFMAG, SELFMAG) || h.e_ident[EI_CLASS] != ELFCLASS64 ||
      h.e_ident[EI_DATA] != ELFDATA2LSB || h.e_type != ET_REL || h.e_machine != EM_X86_64)
    return fault(l, "it is no relocatable ELF file for x86-64");
  if (h.e_shentsize != sizeof(Elf64_Shdr) ||
      !inside(l, h.e_shoff, (uint64_t)h.e_shnum * sizeof(Elf64_Shdr)))
    return fault(l, "its section table leaves the file");
  l->section_count = h.e_shnum;
  l->sections = calloc((size_t)h.e_shnum + 1, sizeof *l->sections);
  if (!l->sections) return SPC_OUT_OF_MEMORY;
  for (int i = 0; i < h.e_shnum; i++) {
    Elf64_Shdr *s = &l->sections[i].header;
    memcpy(s, l->file + h.e_shoff + (size_t)i * sizeof *s, sizeof *s);
    if (s->sh_type != SHT_NOBITS && !inside(l, s->sh_offset, s->sh_size))
      return fault(l, "section %d leaves the file", i);
    if (s->sh_link >= h.e_shnum) return fault(l, "section %d names section %u", i, s->sh_link);
  }
  return SPC_OK;
}

static spc_status read_symbols(linking *l) {
  for (int i = 0; i < l->section_count; i++) {
    const Elf64_Shdr *s = &l->sections[i].header;
    if (s->sh_type != SHT_SYMTAB) continue;
    const Elf64_Shdr *names = &l->sections[s->sh_link].header;
    if (names->sh_type != SHT_STRTAB || !names->sh_size ||
        l->file[names->sh_offset + names->sh_size - 1])
      return fault(l, "its symbols have no names");
    l->symbols = l->file + s->sh_offset;
    l->symbol_count = s->sh_size / sizeof(Elf64_Sym);
    l->names = (const char *)l->file + names->sh_offset;
    l->name_bytes = names->sh_size;
  }
  return SPC_OK;
}

static spc_status symbol_at(const linking *l, size_t i, Elf64_Sym *out, const char **name) {
  *name = "";
  if (i >= l->symbol_count) return fault(l, "there is no symbol %zu", i);
  memcpy(out, l->symbols + i * sizeof *out, sizeof *out);
  if (out->st_name >= l->name_bytes) return fault(l, "symbol %zu has no name", i);
  *name = l->names + out->st_name;
  return SPC_OK;
}

/* ---- memory ---------------------------------------------------------------------------------- */
/* Unwind tables are not needed: nothing that is emitted unwinds. */
static bool is_loaded(const Elf64_Shdr *s) {
  return (s->sh_flags & SHF_ALLOC) && s->sh_size && s->sh_type != SHT_X86_64_UNWIND;
}

static uint64_t round_up(uint64_t value, uint64_t to) { return (value + to - 1) / to * to; }

/* Code or constants, one after the other. */
static spc_status place(linking *l, bool code, uint64_t *at) {
  for (int i = 0; i < l->section_count; i++) {
    placed *p = &l->sections[i];
    if (!is_loaded(&p->header) || code != ((p->header.sh_flags & SHF_EXECINSTR) != 0)) continue;
    if (p->header.sh_flags & (SHF_WRITE | SHF_TLS)) return fault(l, "section %d is written to", i);
    uint64_t align = p->header.sh_addralign ? p->header.sh_addralign : 1;
    if (p->header.sh_type != SHT_PROGBITS || align > 4096 || p->header.sh_size > l->bytes)
      return fault(l, "section %d is of an unknown kind", i);
    p->offset = round_up(*at, align);
    p->loaded = true;
    *at = p->offset + p->header.sh_size;
  }
  return SPC_OK;
}

static spc_status lay_out(linking *l) {
  uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), at = 0;
  SPC_TRY(place(l, true, &at));
  l->stubs = round_up(at, 16);
  l->writable = round_up(l->stubs + 8 * l->symbol_count, page);
  at = l->writable;
  SPC_TRY(place(l, false, &at));
  l->slots = round_up(at, 16);
  at = round_up(l->slots + 8 * l->symbol_count + 1, page);
  void *memory = mmap(NULL, at, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return SPC_OUT_OF_MEMORY;
  l->code->memory = memory;
  l->code->bytes = at;
  for (int i = 0; i < l->section_count; i++)
    if (l->sections[i].loaded)
      memcpy(l->code->memory + l->sections[i].offset, l->file + l->sections[i].header.sh_offset,
             l->sections[i].header.sh_size);
  return SPC_OK;
}

static uint64_t base_of(const linking *l) { return (uint64_t)(uintptr_t)l->code->memory; }

static spc_status value_of(const linking *l, size_t i, uint64_t *out) {
  Elf64_Sym symbol;
  const char *name;
  *out = 0;
  SPC_TRY(symbol_at(l, i, &symbol, &name));
  if (symbol.st_shndx == SHN_ABS) {
    *out = symbol.st_value;
  } else if (symbol.st_shndx != SHN_UNDEF) {
    if (symbol.st_shndx >= l->section_count) return fault(l, "`%s` is nowhere", name);
    const placed *section = &l->sections[symbol.st_shndx];
    if (symbol.st_value > section->header.sh_size) return fault(l, "`%s` is nowhere", name);
    if (section->loaded) *out = base_of(l) + section->offset + symbol.st_value;
  } else if (!strcmp(name, "_GLOBAL_OFFSET_TABLE_")) {
    *out = base_of(l) + l->slots;
  } else if (*name) {
    *out = address_of(name);
    if (!*out) return fault(l, "it calls `%s`, which is not here", name);
  }
  return SPC_OK;
}

/* A slot and a stub for every symbol: there are few, and so none need be counted. */
static spc_status fill_slots(linking *l) {
  for (size_t i = 0; i < l->symbol_count; i++) {
    uint64_t value, slot = l->slots + 8 * i, stub = l->stubs + 8 * i;
    SPC_TRY(value_of(l, i, &value));
    memcpy(l->code->memory + slot, &value, sizeof value);
    int32_t distance = (int32_t)(slot - (stub + 6));
    memcpy(l->code->memory + stub, "\xff\x25", 2);
    memcpy(l->code->memory + stub + 2, &distance, sizeof distance);
  }
  return SPC_OK;
}

/* ---- relocations ----------------------------------------------------------------------------- */
/* The value of a relocation, and its field's bytes; S + A - P and so on in the ABI's letters. */
static spc_status relocated(const linking *l, const Elf64_Rela *r, uint64_t P, int64_t *value,
                            int *bytes) {
  uint64_t S, GOT = base_of(l) + l->slots, A = (uint64_t)r->r_addend;
  size_t symbol = ELF64_R_SYM(r->r_info);
  SPC_TRY(value_of(l, symbol, &S));
  uint64_t slot = GOT + 8 * symbol, stub = base_of(l) + l->stubs + 8 * symbol, v;
  *bytes = 4;
  switch (ELF64_R_TYPE(r->r_info)) {
  case R_X86_64_PC32: v = S + A - P; break;
  case R_X86_64_PLT32: v = (S - base_of(l) < l->code->bytes ? S : stub) + A - P; break;
  case R_X86_64_GOTPCREL:
  case R_X86_64_GOTPCRELX:
  case R_X86_64_REX_GOTPCRELX: v = slot + A - P; break;
  case R_X86_64_GOTPC32: v = GOT + A - P; break;
  case R_X86_64_64: *bytes = 8, v = S + A; break;
  case R_X86_64_PC64: *bytes = 8, v = S + A - P; break;
  case R_X86_64_GOTOFF64: *bytes = 8, v = S + A - GOT; break;
  case R_X86_64_GOTPC64: *bytes = 8, v = GOT + A - P; break;
  case R_X86_64_GOT64: *bytes = 8, v = slot + A - GOT; break;
  case R_X86_64_PLTOFF64: *bytes = 8, v = stub + A - GOT; break;
  default: return fault(l, "relocation %u is not known", (unsigned)ELF64_R_TYPE(r->r_info));
  }
  *value = (int64_t)v;
  return SPC_OK;
}

static spc_status apply(linking *l, const placed *target, const Elf64_Rela *r) {
  int64_t value = 0;
  int bytes = 8;
  uint64_t at = target->offset + r->r_offset;
  SPC_TRY(relocated(l, r, base_of(l) + at, &value, &bytes));
  if (r->r_offset > target->header.sh_size ||
      target->header.sh_size - r->r_offset < (uint64_t)bytes)
    return fault(l, "a relocation leaves its section");
  if (bytes == 4 && (value < INT32_MIN || value > INT32_MAX))
    return fault(l, "a relocation does not reach its symbol");
  memcpy(l->code->memory + at, &value, (size_t)bytes); /* little-endian: the low bytes */
  return SPC_OK;
}

static spc_status relocate(linking *l) {
  for (int i = 0; i < l->section_count; i++) {
    const Elf64_Shdr *s = &l->sections[i].header;
    if (s->sh_type != SHT_RELA && s->sh_type != SHT_REL) continue;
    if (s->sh_info >= (unsigned)l->section_count) return fault(l, "relocations of no section");
    if (!l->sections[s->sh_info].loaded) continue;
    if (s->sh_type == SHT_REL) return fault(l, "relocations without addends");
    for (size_t n = 0; n < s->sh_size / sizeof(Elf64_Rela); n++) {
      Elf64_Rela r;
      memcpy(&r, l->file + s->sh_offset + n * sizeof r, sizeof r);
      SPC_TRY(apply(l, &l->sections[s->sh_info], &r));
    }
  }
  return SPC_OK;
}

/* ---- the code -------------------------------------------------------------------------------- */
static spc_status collect_entries(linking *l) {
  for (size_t i = 0; i < l->symbol_count; i++) {
    Elf64_Sym symbol;
    const char *name;
    uint64_t value;
    SPC_TRY(symbol_at(l, i, &symbol, &name));
    if (ELF64_ST_TYPE(symbol.st_info) != STT_FUNC || ELF64_ST_BIND(symbol.st_info) == STB_LOCAL ||
        symbol.st_shndx == SHN_UNDEF)
      continue;
    SPC_TRY(value_of(l, i, &value));
    struct entry *e = &l->code->entries[l->code->count];
    if (!(e->name = malloc(strlen(name) + 1))) return SPC_OUT_OF_MEMORY;
    strcpy(e->name, name);
    e->address = (void *)(uintptr_t)value;
    l->code->count++;
  }
  return SPC_OK;
}

static spc_status protect(linking *l) {
  uint8_t *memory = l->code->memory;
  if (l->writable && mprotect(memory, l->writable, PROT_READ | PROT_EXEC))
    return fault(l, "this system does not let memory be executed");
  return mprotect(memory + l->writable, l->code->bytes - l->writable, PROT_READ)
             ? fault(l, "memory cannot be protected")
             : SPC_OK;
}

static spc_status link_file(linking *l) {
  SPC_TRY(read_sections(l));
  SPC_TRY(read_symbols(l));
  l->code = calloc(1, sizeof *l->code + l->symbol_count * sizeof(struct entry));
  if (!l->code) return SPC_OUT_OF_MEMORY;
  SPC_TRY(lay_out(l));
  SPC_TRY(fill_slots(l));
  SPC_TRY(relocate(l));
  SPC_TRY(collect_entries(l));
  return protect(l);
}

spc_status cg_cpu_link(const void *object, size_t bytes, ir_sink *sink, cg_cpu_code **out) {
  char said[FAULT_BYTES] = "";
  linking l = {.file = object, .bytes = bytes, .said = said};
  spc_status status = link_file(&l);
  free(l.sections);
  *out = status == SPC_OK ? l.code : NULL;
  if (status != SPC_OK) cg_cpu_code_free(l.code);
  if (said[0]) /* nothing is held any more: this may end in the handler of the sink's arena */
    ir_diag_add(sink, IR_DIAG_CPU_COMPILE, IR_NOWHERE, "an object cannot be linked: %s", said);
  return status;
}

ir_cpu_function *cg_cpu_code_find(const cg_cpu_code *code, const char *entry) {
  for (int i = 0; i < code->count; i++)
    if (!strcmp(code->entries[i].name, entry))
      return (ir_cpu_function *)(uintptr_t)code->entries[i].address;
  return NULL;
}

void cg_cpu_code_free(cg_cpu_code *code) {
  if (!code) return;
  for (int i = 0; i < code->count; i++) free(code->entries[i].name);
  if (code->memory) munmap(code->memory, code->bytes);
  free(code);
}
