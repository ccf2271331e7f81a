#!/usr/bin/env python3
"""Tests of the generator against the installed Open MPI."""

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
TEST = os.path.dirname(os.path.abspath(__file__))
API = os.path.dirname(TEST)
TOP = os.path.dirname(os.path.dirname(API))
sys.path.insert(0, API)

from gen import GenerateError, header, library, rows, tables, text  # noqa: E402

GENERATE = os.path.join(API, "generate.py")
FUNCTIONS = os.path.join(API, "functions.tsv")
MPI_FLAGS = shlex.split(subprocess.run(["pkg-config", "--cflags", "ompi-c"], capture_output=True, text=True,
                                       check=False).stdout)


def generate(*arguments):
    return subprocess.run([sys.executable, GENERATE, *arguments], capture_output=True, text=True, check=False)


class Parser(unittest.TestCase):
    def parse(self, declaration):
        return header.parse_prototype(declaration)

    def test_handles(self):
        proto = self.parse("int MPI_Send(const void *buf, int count, MPI_Datatype datatype, MPI_Comm comm)")
        self.assertEqual([p.handle for p in proto.params], ["", "", "Datatype", "Comm"])
        self.assertEqual(proto.lower_params_text(),
                         "const void *buf, int count, void *datatype, void *comm")

    def test_pointers_and_arrays_of_handles(self):
        proto = self.parse("int MPI_F(MPI_Comm *c, const MPI_Datatype types[], MPI_Comm * d, "
                           "MPI_Request r[])")
        self.assertEqual([(p.level, p.is_array, p.is_const) for p in proto.params],
                         [(1, False, False), (1, True, True), (1, False, False), (1, True, False)])
        self.assertEqual(proto.lower_params_text(),
                         "void **c, void *const types[], void **d, void *r[]")

    def test_attributes_and_void(self):
        proto = self.parse('__attribute__((visibility("default"))) double MPI_Wtime(void)')
        self.assertEqual((proto.result, proto.params, proto.params_text()), ("double", [], "void"))

    def test_function_pointers_and_arrays(self):
        proto = self.parse("int MPI_F(int ranges[][3], int (*cb)(void *, int), char **argv[], "
                           "MPI_User_function *fn, ...)")
        self.assertEqual([p.name for p in proto.params], ["ranges", "cb", "argv", "fn"])
        self.assertTrue(proto.is_variadic)

    def test_unnamed_parameters(self):
        proto = self.parse("int MPI_F(int, MPI_Comm, const char *, MPI_Info *)")
        self.assertEqual([p.name for p in proto.params], ["arg0", "arg1", "arg2", "arg3"])
        self.assertEqual(proto.params_text(),
                         "int arg0, MPI_Comm arg1, const char *arg2, MPI_Info *arg3")

    def test_handle_result(self):
        proto = self.parse("MPI_Comm MPI_Comm_f2c(int comm)")
        self.assertEqual((proto.result_handle(), proto.lower_result()), ("Comm", "void *"))

    def test_what_is_no_function(self):
        for statement in ("typedef int (MPI_F)(void)", "struct s { int x; }", "extern int *MPI_X",
                          "enum { A, B }"):
            self.assertIsNone(self.parse(statement))

    def test_status_is_no_handle(self):
        self.assertEqual(self.parse("int MPI_F(MPI_Status *s)").params[0].handle, "")

    def test_predefined_objects(self):
        _, handles = header.parse_header("extern struct ompi_predefined_op_t ompi_mpi_op_sum; int x;")
        self.assertEqual(handles["ompi_mpi_op_sum"], "Op")


class Rows(unittest.TestCase):
    def setUp(self):
        with open(FUNCTIONS, encoding="utf-8") as file:
            self.lines = file.read().splitlines(True)
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)

    def run_with(self, lines):
        path = os.path.join(self.folder, "functions.tsv")
        with open(path, "w", encoding="utf-8") as file:
            file.writelines(lines)
        return generate("--functions", path, "--output", self.folder)

    def test_missing_row(self):
        run = self.run_with([line for line in self.lines if not re.match(r"MPI_(Send|Bcast)\t", line)])
        self.assertEqual(run.returncode, 1)
        self.assertEqual([line.split(": ")[1] for line in run.stderr.splitlines()], ["MPI_Bcast", "MPI_Send"])
        self.assertIn("has no row", run.stderr)

    def test_surplus_row(self):
        run = self.run_with(self.lines + ["MPI_Zzz\tlocal\tgenerated\n"])
        self.assertEqual(run.returncode, 1)
        self.assertRegex(run.stderr, r"^generate.py: MPI_Zzz: has a row, is not exported by .*\n$")

    def test_bad_rows(self):
        for bad in ("MPI_Zzz\tlocl\tgenerated\n", "MPI_Zzz\tlocal\trefused\n", "MPI_Zzz\tlocal\tcustom\tx\n",
                    "MPI_Aaa\tlocal\tgenerated\n", "MPI_Zzz local generated\n", "MPI_Zzz\tlocal\tother\n"):
            run = self.run_with(self.lines + [bad])
            self.assertEqual((run.returncode, len(run.stderr.splitlines())), (1, 1), bad)

    def test_data_is_no_function(self):
        run = self.run_with([line.replace("MPI_Send\tsend\tcustom\tupper", "MPI_Send\tsend\tdata")
                             for line in self.lines])
        self.assertEqual(run.returncode, 1)
        self.assertIn("MPI_Send: data in one", run.stderr)

    def test_classes_say_what_to_expect(self):
        table = rows.read_rows(FUNCTIONS)
        for name, semantics, handling in (("MPI_Send", "send", "custom"),
                                          ("MPI_Bcast", "collective", "generated"),
                                          ("MPI_Ibcast", "icollective", "generated"),
                                          ("MPI_Type_vector", "datatype", "custom"),
                                          ("MPI_Win_create", "rma", "refused")):
            self.assertEqual((table[name].semantics, table[name].handling), (semantics, handling))

    def test_table_in_docs_is_current(self):
        with open(os.path.join(TOP, "docs", "mpi-support.md"), encoding="utf-8") as file:
            self.assertEqual(file.read(), generate("--table").stdout, "run make api-table")


class Library(unittest.TestCase):
    def test_symbols(self):
        lib = library.Library("x")
        library.parse_symbols("0010 0004 D number\n0020 0008 B pointer@@V_1\n0030 0010 W MPI_Send\n"
                              "0030 0010 T PMPI_Send\n0000000000000000 A V_1\n", lib)
        self.assertEqual(lib.functions, {"MPI_Send", "PMPI_Send"})
        self.assertEqual({name: d.size for name, d in lib.data.items()}, {"number": 4, "pointer": 8})
        self.assertEqual(lib.versions, {"pointer": "V_1"})
        library.parse_relocations("000000000020  000800000001 R_X86_64_64  0000000000000010 number + 0\n",
                                  lib)
        self.assertEqual(lib.data["pointer"].points_to, "number")
        lib.data["pointer"].points_to = ""
        library.parse_relocations("000000000020  000000000008 R_X86_64_RELATIVE   10\n", lib)
        self.assertEqual(lib.data["pointer"].points_to, "number")

    def test_export_map_keeps_versions(self):
        lib = library.Library("x", data={"a": library.Data("a", 4, 0), "b": library.Data("b", 4, 8)},
                              versions={"a": "V_1"})
        written = tables.export_map(lib)
        self.assertIn("V_1 {\nglobal:\n    a;\n}", written)
        self.assertIn("BELAY {\nglobal:\n    b;\nlocal:\n    *;", written)

    def test_another_library_is_refused(self):
        libc = subprocess.run(["cc", "-print-file-name=libc.so.6"], capture_output=True, text=True,
                              check=True).stdout.strip()
        with self.assertRaisesRegex(GenerateError, "not libmpi.so.40"):
            library.read_library(libc)

    def test_fill_breaks_after_commas_only(self):
        line = "    call(" + ", ".join(["const int *a"] * 20) + ");"
        for part in text.fill(line).splitlines():
            self.assertLessEqual(len(part), 110)
            self.assertRegex(part, r"(,|;)$")


class Generated(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.top = tempfile.mkdtemp()
        cls.addClassCleanup(shutil.rmtree, cls.top)
        cls.folder = os.path.join(cls.top, "mpi-layer", "api")
        run = generate("--output", cls.folder)
        if run.returncode != 0:
            raise AssertionError(run.stderr)
        cls.library = cls.build()

    @classmethod
    def build(cls):
        """Our library, without what is written by hand in mpi-layer/upper."""
        objects = []
        sources = [os.path.join(cls.folder, name) for name in os.listdir(cls.folder) if name.endswith(".c")]
        sources += [os.path.join(API, name) for name in os.listdir(API) if name.endswith(".c")]
        for source in sources:
            objects.append(os.path.join(cls.top, os.path.basename(source) + ".o"))
            cls.run_cc(["-std=gnu11", "-O1", "-fPIC", "-fvisibility=hidden", "-Wall", "-Wextra", "-Werror",
                        *MPI_FLAGS, "-I" + os.path.join(TEST, "standin"), "-I" + cls.top, "-I" + TOP,
                        "-c", source, "-o", objects[-1]])
        path = os.path.join(cls.top, "libmpi.so.40")
        cls.run_cc(["-shared", "-Wl,-soname,libmpi.so.40", "-o", path, *objects,
                    "-Wl,--version-script=" + os.path.join(cls.folder, "libmpi.gen.map")])
        return path

    @staticmethod
    def run_cc(arguments):
        run = subprocess.run(["cc", *arguments], capture_output=True, text=True, check=False)
        if run.returncode != 0:
            raise AssertionError(run.stderr[:4000])

    def test_only_functions_by_hand_are_missing(self):
        run = generate("--check-library", self.library)
        missing = {line.split(": ")[2] for line in run.stderr.splitlines()}
        expected = {row.name for row in rows.read_rows(FUNCTIONS).values()
                    if row.handling == "custom" and row.note in ("upper", "fortran")}
        expected |= {"P" + name for name in expected if name.lower().startswith("mpi_") and not name.isupper()}
        self.assertEqual(missing, expected)

    def test_names_are_weak_and_twins(self):
        symbols = {}
        for line in library.run_tool(["nm", "-D", "--defined-only", self.library]).splitlines():
            address, kind, name = line.split()[:3]
            symbols[name.partition("@")[0]] = (address, kind)
        for name in ("MPI_Bcast", "MPI_Win_create", "MPI_Type_vector", "MPI_Address"):
            self.assertEqual((symbols[name][1], symbols["P" + name][1]), ("W", "T"))
            self.assertEqual(symbols[name][0], symbols["P" + name][0])

    def test_data_sizes_and_pointers_equal_the_real_ones(self):
        real = library.read_library(library.find_library(["cc"], []))
        ours = library.read_library(self.library)
        self.assertEqual({name: d.size for name, d in ours.data.items()},
                         {name: d.size for name, d in real.data.items()})
        self.assertEqual({name: d.points_to for name, d in ours.data.items()},
                         {name: d.points_to for name, d in real.data.items()})

    def test_unchanged_files_are_left_alone(self):
        path = os.path.join(self.folder, "api.gen.h")
        os.utime(path, (1, 1))
        self.assertEqual(generate("--output", self.folder).returncode, 0)
        self.assertEqual(os.stat(path).st_mtime, 1)


if __name__ == "__main__":
    unittest.main(verbosity=2)
