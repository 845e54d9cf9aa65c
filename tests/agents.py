"""An agent: the client of the MCP SDK, asking the tools of `tuner serve`."""

import asyncio
import json

import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from tuner.service.mcp import BRIEF


class Agent:
    """A client of the server at `url`. mode: of the SDK's Client."""

    def __init__(self, url, token, mode="auto"):
        self.url = url
        self.token = token
        self.mode = mode

    def ask(self, question):
        """The result of `question(client)`."""

        async def answer():
            headers = {"Authorization": f"Bearer {self.token}"}
            async with httpx2.AsyncClient(
                headers=headers, timeout=60, verify=False
            ) as http:
                transport = streamable_http_client(self.url, http_client=http)
                async with Client(transport, mode=self.mode) as client:
                    return await question(client)

        return asyncio.run(answer())

    def text(self, tool, **arguments):
        """Whether the answer is an error, and its text."""
        result = self.ask(lambda client: client.call_tool(tool, arguments))
        [content] = result.content
        return result.is_error, content.text

    def call(self, tool, **arguments):
        is_error, text = self.text(tool, **arguments)
        assert not is_error, text
        return json.loads(text)

    def refused(self, tool, **arguments):
        is_error, text = self.text(tool, **arguments)
        assert is_error
        assert len(text) <= BRIEF
        return text.removeprefix(f"Error executing tool {tool}: ")
