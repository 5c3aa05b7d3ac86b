"""`mbbq-gen view`: all items of a run in a browser, from a server for this machine only."""

from __future__ import annotations

from typing import Annotated

import typer

from mbbq_gen.cli.options import Packs, RunPath, example, resources


@example("  mbbq-gen view my-run --open")
def view(
    run_path: RunPath,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0: any free one.")] = 0,
    open_browser: Annotated[bool, typer.Option("--open", help="Open the page in your browser.")] = False,
    packs: Packs = None,
) -> None:
    """Serves the items of a run to the browser of this machine until Ctrl-C: filter them, and read one in full.

    Prints the address. Only this machine is answered, only under the loopback address, and nothing can be changed.
    """
    from mbbq_gen.cli.loading import read_before_use
    from mbbq_gen.runs.bars import Bar
    from mbbq_gen.runs.folder import RunFolder
    from mbbq_gen.viewer.server import ViewServer, open_viewer

    folder = RunFolder(run_path)
    folder.require()
    where = resources(packs)
    versions = read_before_use(folder, where)
    with Bar("items", None, "items", delay=1.0) as bar:
        viewer = open_viewer(folder, versions, where, bar.advance)
    with ViewServer(viewer, port) as server:
        typer.echo(server.url)
        if open_browser:
            import webbrowser

            webbrowser.open(server.url)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            typer.echo("stopped.", err=True)
