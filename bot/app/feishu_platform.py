"""Opens Feishu."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from functools import partial

from bot.app.services import Services
from bot.app.settings import Settings
from bot.chat.messages import Ingress
from bot.chat.platform import IngressGate, IsConnected, Platform, is_listening
from bot.core.errors import SettingsError
from bot.core.timing import Timing
from bot.people.directory import PlatformDirectory
from bot.people.directory_file import DirectoryFile
from bot.people.redis_member_store import RedisMemberStore
from bot.platforms.feishu.callbacks import build_callback_app
from bot.platforms.feishu.channel import FeishuChannel
from bot.platforms.feishu.channel_readers import has_only_insiders
from bot.platforms.feishu.client import FeishuClient, identify_bot, open_feishu_client
from bot.platforms.feishu.connection import open_long_connection
from bot.platforms.feishu.directory import FeishuMembers
from bot.platforms.feishu.files import FeishuFileSource
from bot.platforms.feishu.home import publish_home
from bot.platforms.feishu.listeners import FeishuListeners
from bot.platforms.feishu.press_listeners import PressListeners
from bot.platforms.feishu.renewals import keep_cards_renewed
from bot.platforms.feishu.sent_cards import SentCards
from bot.platforms.http_mode import open_http_server
from bot.platforms.shared import CachingReaderClassifier
from bot.storage.stores import Stores


@asynccontextmanager
async def open_feishu(
    settings: Settings, services: Services, stores: Stores, timing: Timing
) -> AsyncIterator[Platform]:
    """Open Feishu. Raises `ChatError` or `SettingsError`."""
    if services.feishu is None:
        raise SettingsError("FEISHU_APP_ID is missing")
    app = services.feishu
    async with open_feishu_client(app.app_id, app.secret, app.url) as client:
        me = await identify_bot(client)
        sent = SentCards(stores.redis, stores.keys, me.tenant, stores.clock)
        locale = "zh-CN" if settings.feishu_domain == "feishu" else "en-US"
        directory = PlatformDirectory(
            FeishuMembers(client, locale=locale, timezone=settings.company_timezone),
            DirectoryFile(services.directory_file),
            store=RedisMemberStore(stores.redis, stores.keys, me.tenant),
            languages=stores.preferences,
            fresh_s=timing.person_max_age_s,
        )
        spacing_ms = min(300, settings.post_spacing_ms)
        channel = FeishuChannel(client, stores.lanes, sent, directory, team=me.tenant, spacing_ms=spacing_ms)
        readers, gate = CachingReaderClassifier(partial(has_only_insiders, client, me.tenant)), IngressGate()
        publish = partial(publish_home, channel, sent, directory)

        def connect(ingress: Ingress) -> AbstractAsyncContextManager[IsConnected]:
            presses = PressListeners(me, ingress, channel, sent, directory, publish, gate)
            listeners = FeishuListeners(client, me, ingress, channel, directory, readers.note_changed_place, presses)
            return _receive_events(settings, client, listeners, gate)

        try:
            yield Platform(
                team=me.tenant,
                chat=channel,
                directory=directory,
                reader_classifier=readers,
                file_source=FeishuFileSource(client),
                publish_home=publish,
                connect=connect,
                gate=gate,
                jobs=(partial(keep_cards_renewed, channel, sent),),
            )
        finally:
            await channel.close_signs()


@asynccontextmanager
async def _receive_events(
    settings: Settings, client: FeishuClient, listeners: FeishuListeners, gate: IngressGate
) -> AsyncIterator[IsConnected]:
    """Receive events by the long connection, or by signed HTTP if the settings say so."""
    async with AsyncExitStack() as stack:
        stack.push_async_callback(listeners.finish)
        if settings.feishu_mode == "long":
            yield await stack.enter_async_context(open_long_connection(client, listeners.handle_payload, gate))
            return
        key, token = (
            secret.get_secret_value() if secret else ""
            for secret in (settings.feishu_encrypt_key, settings.feishu_verification_token)
        )
        application = build_callback_app(listeners.handle_payload, key, token, gate)
        await stack.enter_async_context(open_http_server(application, settings.http_host, settings.http_port))
        yield is_listening
