"""Opens Slack."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from functools import partial

from slack_bolt.async_app import AsyncApp

from bot.app.services import Services
from bot.app.settings import Settings
from bot.chat.messages import Ingress
from bot.chat.platform import IngressGate, IsConnected, Platform, is_listening
from bot.core.timing import Timing
from bot.people.directory import PlatformDirectory
from bot.people.directory_file import DirectoryFile
from bot.people.redis_member_store import RedisMemberStore
from bot.platforms.http_mode import open_http_server
from bot.platforms.shared import CachingReaderClassifier
from bot.platforms.slack import app as slack
from bot.platforms.slack.channel import SlackChannel
from bot.platforms.slack.channel_readers import has_only_insiders
from bot.platforms.slack.directory import SlackMembers
from bot.platforms.slack.files import SlackFileSource
from bot.platforms.slack.home_listeners import publish_home
from bot.platforms.slack.listeners import SlackListeners
from bot.platforms.slack.missed_messages import LastSeenStore, MissedMessages
from bot.platforms.slack.web_client import identify_bot, open_web_client
from bot.storage.stores import Stores


@asynccontextmanager
async def open_slack(settings: Settings, services: Services, stores: Stores, timing: Timing) -> AsyncIterator[Platform]:
    """Open Slack. Raises `ChatError` or `SettingsError`."""
    async with open_web_client(services.bot_token, services.slack_api_url) as client:
        me = await identify_bot(client)
        last_seen = LastSeenStore(stores.redis, stores.keys)
        channel = SlackChannel(client, stores.lanes, team=me.team, bot=me.user, spacing_ms=settings.post_spacing_ms)
        directory = PlatformDirectory(
            SlackMembers(client, me.team),
            DirectoryFile(services.directory_file),
            store=RedisMemberStore(stores.redis, stores.keys, me.team),
            languages=stores.preferences,
            fresh_s=timing.person_max_age_s,
        )

        gate = IngressGate()

        def connect(ingress: Ingress) -> AbstractAsyncContextManager[IsConnected]:
            listeners = SlackListeners(client, me, ingress, channel, directory)
            missed_messages = MissedMessages(client, listeners, last_seen, stores.clock)
            secret = services.signing_secret
            bolt_app = slack.build_bolt_app(client, me, ingress, channel, directory, listeners, secret)
            return _receive_events(settings, services, bolt_app, missed_messages, gate)

        try:
            yield Platform(
                team=me.team,
                chat=channel,
                directory=directory,
                reader_classifier=CachingReaderClassifier(partial(has_only_insiders, client, directory)),
                file_source=SlackFileSource(client),
                publish_home=partial(publish_home, client, channel, directory),
                connect=connect,
                gate=gate,
            )
        finally:
            await channel.stop_statuses()


@asynccontextmanager
async def _receive_events(
    settings: Settings, services: Services, bolt_app: AsyncApp, missed_messages: MissedMessages, gate: IngressGate
) -> AsyncIterator[IsConnected]:
    """Receive events by Socket Mode, or by signed HTTP if the settings say so."""
    async with AsyncExitStack() as stack:
        stack.push_async_callback(slack.finish_listeners, bolt_app)
        if settings.slack_mode == "socket":
            handler = await stack.enter_async_context(slack.open_socket_mode(bolt_app, services.app_token, gate))
            is_connected: IsConnected = handler.client.is_connected
        else:
            application = slack.build_web_app(bolt_app, services.signing_secret, gate)
            await stack.enter_async_context(open_http_server(application, settings.http_host, settings.http_port))
            is_connected = is_listening
        await stack.enter_async_context(missed_messages.watched(is_connected))
        yield is_connected
