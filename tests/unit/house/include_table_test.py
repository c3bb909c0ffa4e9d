"""The rooms keep their walls: runs the include table over the repository, and proves that it would notice."""

import sys
import tempfile
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent))

import include_table  # noqa: E402

REPOSITORY = Path(__file__).resolve().parents[3]


class Repository(unittest.TestCase):
    def test_obeys_the_table(self):
        found = include_table.violations(REPOSITORY)
        self.assertEqual([], [str(violation) for violation in found])

    def test_is_really_read(self):
        files = list(include_table._files(REPOSITORY))
        self.assertIn(("base", REPOSITORY / "src/base/result.h"), files)
        self.assertIn(("engine", REPOSITORY / "src/engine/engine.h"), files)
        self.assertGreater(len(files), 30)

    def test_has_the_headers_that_rooms_show(self):
        for room, headers in include_table.INTERFACES.items():
            folder = REPOSITORY / "src" / room
            if folder.is_dir():
                for header in headers:
                    self.assertTrue((folder / header).is_file(), f"{room}/{header}")


class Table(unittest.TestCase):
    """Each case is a small repository with one file under test."""

    TREE = {
        "src/base/mutex.h": "",
        "src/base/result.h": "",
        "src/lvm/lvm_api.h": "",
        "src/lvm/run/zygote.h": "",
        "src/dm/dm_api.h": "",
        "src/mount/mount_api.h": "",
        "src/mount/options.h": "",
        "src/engine/engine.h": "",
        "src/engine/world.h": "",
        "src/engine/model/catalog.h": "",
        "src/engine/plan/actions.h": "",
        "src/engine/calls/parts.h": "",
        "src/csi/server.h": "",
        "tests/fakes/fake_lvm.h": "",
    }

    def reasons(self, file, *lines):
        with tempfile.TemporaryDirectory() as folder:
            for path, text in (self.TREE | {file: "".join(f"#include {line}\n" for line in lines)}).items():
                (Path(folder) / path).parent.mkdir(parents=True, exist_ok=True)
                (Path(folder) / path).write_text(text)
            return [(violation.included, violation.reason) for violation in include_table.violations(Path(folder))]

    def allows(self, file, *lines):
        self.assertEqual([], self.reasons(file, *lines))

    def forbids(self, file, line, why):
        found = self.reasons(file, line)
        self.assertEqual(1, len(found), f"{file} may include {line}")
        self.assertIn(why, found[0][1])

    def test_rooms_know_what_lies_below_them(self):
        self.allows("src/lvm/lvm.cc", '"base/result.h"', '"lvm/run/zygote.h"', "<vector>", "<fmt/format.h>", "<sys/wait.h>")
        self.allows("src/engine/engine.cc", '"lvm/lvm_api.h"', '"dm/dm_api.h"', '"mount/mount_api.h"')
        self.allows("src/csi/v1.cc", '"engine/engine.h"', "<grpcpp/grpcpp.h>", '"csi/v1/csi.grpc.pb.h"')
        self.allows("src/daemon/main.cc", '"lvm/run/zygote.h"', '"csi/server.h"', '"engine/engine.h"', "<CLI/CLI.hpp>")
        self.allows("tests/fakes/fake_lvm.cc", '"tests/fakes/fake_lvm.h"', '"lvm/lvm_api.h"', '"engine/engine.h"')

    def test_base_knows_nobody(self):
        self.forbids("src/base/call.cc", '"lvm/lvm_api.h"', "base must not know lvm")

    def test_the_worlds_do_not_look_sideways_or_up(self):
        self.forbids("src/lvm/lvm.cc", '"dm/dm_api.h"', "lvm must not know dm")
        self.forbids("src/mount/mount.cc", '"engine/engine.h"', "mount must not know engine")

    def test_the_floors_of_the_engine_know_what_lies_below_them(self):
        self.allows("src/engine/plan/plan.cc", '"engine/plan/actions.h"', '"engine/model/catalog.h"', '"engine/world.h"')
        self.allows("src/engine/calls/calls.cc", '"engine/engine.h"', '"engine/plan/actions.h"')
        self.allows("src/engine/engine.cc", '"engine/calls/parts.h"')
        self.allows("src/engine/face.h", '"engine/model/catalog.h"', '"engine/world.h"')
        self.forbids("src/engine/model/sizing.cc", '"engine/plan/actions.h"', "model must not know plan")
        self.forbids("src/engine/plan/plan.h", '"engine/calls/parts.h"', "plan must not know calls")
        self.forbids("src/engine/face.h", '"engine/calls/parts.h"', "may include of its floors only model")

    def test_a_new_floor_has_to_be_entered(self):
        self.forbids("src/engine/attic/junk.cc", '"engine/model/catalog.h"', "no floor 'attic'")

    def test_callers_see_the_faces_of_the_engine(self):
        self.allows("src/csi/v1.cc", '"engine/engine.h"')
        self.forbids("src/csi/v1.cc", '"engine/model/catalog.h"', "csi may see of engine only")
        self.allows("src/ctl/plan.cc", '"engine/model/catalog.h"')
        self.forbids("src/ctl/plan.cc", '"engine/calls/parts.h"', "ctl may see of engine only")

    def test_the_engine_sees_interfaces_only(self):
        self.forbids("src/engine/engine.cc", '"lvm/run/zygote.h"', "may see of lvm only")
        self.forbids("src/engine/engine.cc", '"mount/options.h"', "may see of mount only mount_api.h")
        self.forbids("src/engine/engine.cc", '"csi/server.h"', "engine must not know csi")
        self.forbids("src/engine/engine.cc", '"csi/v1/csi.pb.h"', "must not know CSI messages")
        self.forbids("src/engine/engine.cc", "<grpcpp/grpcpp.h>", "must not know this library")
        self.forbids("src/engine/engine.cc", "<libdevmapper.h>", "must not know this library")

    def test_the_shims_do_not_reach_past_the_engine(self):
        self.forbids("src/csi/v1.cc", '"lvm/lvm_api.h"', "csi must not know lvm")

    def test_c_libraries_stay_in_their_room_and_out_of_its_headers(self):
        self.allows("src/dm/dm.cc", "<libdevmapper.h>")
        self.allows("src/mount/mount.cc", "<libmount/libmount.h>", "<blkid/blkid.h>")
        self.allows("src/dm/dm_task.h", "<libdevmapper.h>")
        self.forbids("src/dm/dm.h", "<libdevmapper.h>", ".cc files only")
        self.forbids("src/lvm/lvm.cc", "<libdevmapper.h>", "must not know this library")
        self.forbids("src/dm/dm.cc", "<blkid/blkid.h>", "must not know this library")
        self.forbids("src/daemon/main.cc", "<lvm2cmd.h>", "must not know this library")

    def test_annotations_come_with_the_mutex(self):
        self.allows("src/base/mutex.h", "<absl/base/thread_annotations.h>")
        self.allows("src/engine/engine.h", '"base/mutex.h"')
        self.forbids("src/engine/engine.h", "<absl/base/thread_annotations.h>", "must not know this library")

    def test_product_code_does_not_know_fakes(self):
        self.forbids("src/engine/engine.cc", '"tests/fakes/fake_lvm.h"', "fakes are for tests")
        self.forbids("tests/fakes/fake_lvm.cc", '"lvm/run/zygote.h"', "may see of lvm only")
        self.allows("tests/fakes/fake_mount.cc", '"mount/options.h"')

    def test_what_is_not_in_the_table_is_refused(self):
        self.forbids("src/engine/engine.cc", "<curl/curl.h>", "does not know this library")
        self.forbids("src/engine/engine.cc", '"engine.h"', "by their path below src/")
        self.assertEqual("the table has no room 'attic'", self.reasons("src/attic/old.cc", "<vector>")[0][1])


if __name__ == "__main__":
    unittest.main()
